/* What the kubelet's ListAndWatch is told of the GPUs: plugin.c over calls that these tests play, some of
 * which fail. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent-fixture.h"
#include "agent/kubelet/calls.h"
#include "agent/kubelet/kubelet-internal.h"
#include "agent/kubelet/plugin.h"
#include "base/cleanup.h"
#include "net/loop.h"

struct kubelet_call {
	bool resumed;
	int fails; /* so many sends */
	int messages;
	char last[4096];
	size_t len;
};

static const struct calls_ops *ops;
static void *plugin_of_calls;

/* What plugin.c uses of calls.h: these come before the library. */
int calls_new(
	struct loop *loop, int fd, const struct calls_ops *given, void *userdata, struct calls **ret_calls)
{
	ops = given;
	plugin_of_calls = userdata;
	*ret_calls = NULL;
	close(fd);
	return 0;
}

void calls_free(struct calls *calls)
{
}

void calls_begin(struct calls *calls)
{
}

void calls_listen(struct calls *calls)
{
}

void calls_ready(struct calls *calls)
{
}

bool kubelet_call_resumed(const struct kubelet_call *call)
{
	return call->resumed;
}

int kubelet_call_send(struct kubelet_call *call, const void *message, size_t len)
{
	if (call->fails && call->fails--)
		return -ENOMEM;
	assert_true(len <= sizeof(call->last));
	memcpy(call->last, message, len);
	call->len = len;
	call->messages++;
	return 0;
}

void kubelet_call_reply(struct kubelet_call *call, const void *message, size_t len)
{
}

void kubelet_call_fail(struct kubelet_call *call, enum grpc_status status, const char *text)
{
}

struct fixture {
	struct loop *loop;
	struct node_registry node;
	struct relay_ends relays;
	struct kubelet kubelet;
	struct plugin *plugin;
	struct kubelet_call first, second;
};

static void changed(void *userdata)
{
	plugin_update(((struct fixture *)userdata)->plugin);
}

/* Two GPUs of 4 units, nothing watched but the plugin. */
static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct gpu gpus[2] = {{.facts = {.index = 0, .mib = 4096, .healthy = true}},
		{.facts = {.index = 1, .mib = 4096, .healthy = true}}};

	*state = f;
	strcpy(gpus[0].facts.uuid, UUID_0);
	strcpy(gpus[1].facts.uuid, UUID_1);
	assert_int_equal(loop_new(&f->loop), 0);
	node_registry_init(&f->node, "n1");
	f->node.inventory.unit_mib = 1024;
	assert_true(inventory_update(&f->node.inventory, gpus, 2));
	f->node.in_force = GPU_MODE_SHARE;
	f->node.settled = true;
	node_registry_decide(&f->node, 0);
	f->relays.fds[PLUGIN_OF_MEM] = dup(0);
	f->kubelet.deps = (struct kubelet_deps){
		.loop = f->loop, .node = &f->node, .relays = &f->relays, .changed = changed, .userdata = f};
	assert_int_equal(plugin_new(&f->kubelet, false, &f->plugin), 0);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	plugin_free(f->plugin);
	node_registry_release(&f->node);
	loop_free(f->loop);
	free(f);
	return 0;
}

static void set_health(struct fixture *f, bool healthy)
{
	f->node.inventory.gpus[1].facts.healthy = healthy;
}

/* The messages are packed texts. */
static size_t count(const struct kubelet_call *call, const char *word)
{
	size_t n = 0, len = strlen(word);

	for (size_t i = 0; i + len <= call->len; i++)
		n += memcmp(call->last + i, word, len) == 0 && (i == 0 || call->last[i - 1] != 'n');
	return n;
}

static void watch(struct kubelet_call *call)
{
	ops->methods[RELAY_LIST_AND_WATCH].handle(plugin_of_calls, call, NULL, 0);
}

static void unwatch(struct kubelet_call *call)
{
	ops->methods[RELAY_LIST_AND_WATCH].closed(plugin_of_calls, call);
}

void event_on_pod(
	const struct events *events, const struct pod_facts *pod, const char *reason, const char *text)
{
}

void event_on_node(const struct events *events, const char *reason, const char *text)
{
}

static void kubelet_is_told_what_could_not_be_sent_at_first(void **state)
{
	struct fixture *f = *state;

	f->kubelet.plugin = f->plugin;
	watch(&f->first);
	assert_int_equal(count(&f->first, "Healthy"), 8);
	f->node.in_force = GPU_MODE_NONE;
	node_registry_decide(&f->node, 0);
	f->first.fails = 1;
	plugin_update(f->plugin);
	assert_int_equal(f->first.messages, 1);
	plugin_update(f->plugin);
	assert_int_equal(f->first.messages, 2);
	assert_int_equal(count(&f->first, "Healthy"), 0);
	plugin_update(f->plugin);
	assert_int_equal(f->first.messages, 2);
}

static void stream_that_alone_had_the_new_list_is_told_of_the_old_one_again(void **state)
{
	struct fixture *f = *state;

	f->kubelet.plugin = f->plugin;
	watch(&f->first);
	watch(&f->second);
	set_health(f, false);
	f->second.fails = 1;
	plugin_update(f->plugin);
	assert_int_equal(count(&f->first, "Healthy"), 4);
	set_health(f, true);
	plugin_update(f->plugin);
	assert_int_equal(count(&f->first, "Healthy"), 8);
	assert_int_equal(count(&f->second, "Healthy"), 8);
}

static void gpu_that_was_sick_when_the_kubelet_came_back_is_told_as_healthy(void **state)
{
	struct fixture *f = *state;

	f->kubelet.plugin = f->plugin;
	watch(&f->first);
	plugin_update(f->plugin);
	unwatch(&f->first);
	set_health(f, false);
	watch(&f->second);
	assert_int_equal(count(&f->second, "Unhealthy"), 4);
	set_health(f, true);
	plugin_update(f->plugin);
	assert_int_equal(count(&f->second, "Healthy"), 8);
}

static void list_that_stays_the_same_is_sent_once(void **state)
{
	struct fixture *f = *state;

	f->kubelet.plugin = f->plugin;
	watch(&f->first);
	for (int i = 0; i < 3; i++)
		plugin_update(f->plugin);
	set_health(f, false);
	for (int i = 0; i < 3; i++)
		plugin_update(f->plugin);
	assert_int_equal(f->first.messages, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			kubelet_is_told_what_could_not_be_sent_at_first, setup, teardown),
		cmocka_unit_test_setup_teardown(
			stream_that_alone_had_the_new_list_is_told_of_the_old_one_again, setup, teardown),
		cmocka_unit_test_setup_teardown(
			gpu_that_was_sick_when_the_kubelet_came_back_is_told_as_healthy, setup, teardown),
		cmocka_unit_test_setup_teardown(list_that_stays_the_same_is_sent_once, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
