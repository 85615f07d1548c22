/* Whose answer was it? What the agent's record becomes when it follows the kubelet's checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/answered.h"
#include "node/pods.h"
#include "node/served.h"

static char *ONE[] = {"0-1", "0-2"}, *TWO[] = {"1-1", "1-2"}, *ENO[] = {"0-2", "0-1"};

struct world {
	struct served record, checkpoint;
	struct node_pods pods; /* that the API server shows on the node */
	bool listed;	       /* all of them; false: they are not known */
};

static void begin(struct world *w)
{
	served_init(&w->record);
	served_init(&w->checkpoint);
	node_pods_init(&w->pods);
	w->listed = false;
}

static void end(struct world *w)
{
	served_release(&w->record);
	served_release(&w->checkpoint);
	node_pods_release(&w->pods);
}

/* From now on the API server has shown all pods, and this is one of them. */
static void exists(struct world *w, const char *uid)
{
	struct pod_facts facts = {
		.uid = strdup(uid), .namespace_ = strdup("d"), .name = strdup(uid), .node = strdup("n")};

	assert_non_null(node_pods_put(&w->pods, &facts));
	w->listed = true;
}

static void add(
	struct served *to, const char *uid, const char *container, char *const *ids, const char *device)
{
	assert_int_equal(served_add(to, uid, container, ids, 2), 0);
	assert_int_equal(served_set_answer(to, uid, container, device, NULL), 0);
}

/* The agent has answered Allocate for this container, as it thinks. */
static void deduce(struct world *w, const char *uid, const char *container, char *const *ids)
{
	add(&w->record, uid, container, ids, NULL);
	served_set_waits(&w->record, uid, container, true);
}

static enum answered follow(struct world *w, char *const *ids)
{
	enum answered answered = ANSWERED_TWICE;

	assert_int_equal(
		answered_follow(&w->record, &w->checkpoint, w->listed ? &w->pods : NULL, ids, 2, &answered),
		0);
	return answered;
}

static void assert_name(struct world *w, const char *uid, const char *container, const char *expected)
{
	char buf[ANSWERED_NAME_SIZE];
	const char *name = answered_name(&w->record, uid, container, buf);

	if (!expected)
		assert_null(name);
	else
		assert_string_equal(name, expected);
}

static void an_answer_that_was_meant_so_changes_nothing(void **state)
{
	struct world w;

	begin(&w);
	deduce(&w, "a", "main", ONE);
	add(&w.checkpoint, "a", "main", ENO, NULL);
	assert_int_equal(follow(&w, ENO), ANSWERED_ITS_OWN);
	assert_false(served_has_started(&w.record, "a"));
	assert_name(&w, "a", "main", "a.main");
	end(&w);
}

static void another_pods_answer_becomes_the_owners_under_the_same_name(void **state)
{
	char buf[ANSWERED_NAME_SIZE];
	struct world w;

	begin(&w);
	deduce(&w, "a", "main", ONE);
	add(&w.checkpoint, "b", "main", ONE, "a.main");
	assert_int_equal(follow(&w, ENO), ANSWERED_ANOTHERS);
	assert_null(served_find(&w.record, "a", "main")); /* its own call is to come */
	assert_false(served_has_started(&w.record, "b"));
	assert_name(&w, "b", "main", "a.main");
	assert_name(&w, "a", "main", NULL);
	assert_string_equal(answered_new_name(&w.record, "a", "main", buf), "a.main.2");
	assert_int_equal(follow(&w, ENO), ANSWERED_ANOTHERS); /* each start of the container */
	/* and then the other one's own call */
	add(&w.record, "a", "main", TWO, "a.main.2");
	add(&w.checkpoint, "a", "main", TWO, "a.main.2");
	assert_int_equal(follow(&w, TWO), ANSWERED_ITS_OWN);
	assert_name(&w, "a", "main", "a.main.2");
	assert_name(&w, "b", "main", "a.main");
	end(&w);
}

static void two_answers_that_were_swapped_are_both_corrected_by_one_look(void **state)
{
	struct world w;

	begin(&w);
	deduce(&w, "a", "main", ONE);
	deduce(&w, "b", "main", TWO);
	add(&w.checkpoint, "b", "main", ONE, "a.main");
	add(&w.checkpoint, "a", "main", TWO, "b.main");
	assert_int_equal(follow(&w, TWO), ANSWERED_ANOTHERS);
	assert_name(&w, "a", "main", "b.main");
	assert_name(&w, "b", "main", "a.main");
	assert_false(served_has_started(&w.record, "a"));
	assert_false(served_has_started(&w.record, "b"));
	assert_true(served_has_ids(served_find(&w.record, "a", "main"), TWO, 2));
	end(&w);
}

static void a_device_that_its_own_container_has_is_not_given_to_another(void **state)
{
	struct world w;

	begin(&w);
	deduce(&w, "a", "main", TWO);
	add(&w.checkpoint, "b", "main", ONE, "a.main");
	assert_int_equal(follow(&w, ONE), ANSWERED_TWICE); /* the checkpoint does not have a's entry yet */
	add(&w.checkpoint, "a", "main", TWO, NULL);
	assert_int_equal(follow(&w, ONE), ANSWERED_TWICE);
	assert_int_equal(follow(&w, TWO), ANSWERED_ITS_OWN);
	assert_name(&w, "a", "main", "a.main");
	assert_name(&w, "b", "main", NULL);
	served_remove_pod(&w.record, "a");
	served_remove_pod(&w.checkpoint, "a");
	assert_int_equal(follow(&w, ONE), ANSWERED_ANOTHERS);
	assert_name(&w, "b", "main", "a.main");
	end(&w);
}

static void one_device_that_two_others_were_answered_is_given_to_neither(void **state)
{
	struct world w;

	begin(&w);
	add(&w.checkpoint, "b", "main", ONE, "a.main");
	add(&w.checkpoint, "c", "main", TWO, "a.main");
	assert_int_equal(follow(&w, ONE), ANSWERED_ANOTHERS);
	assert_int_equal(follow(&w, TWO), ANSWERED_TWICE);
	assert_int_equal(follow(&w, ONE), ANSWERED_TWICE);
	assert_name(&w, "b", "main", NULL);
	assert_name(&w, "c", "main", NULL);
	end(&w);
}

static void containers_of_one_pod_are_told_apart(void **state)
{
	struct world w;

	begin(&w);
	deduce(&w, "a", "one", ONE);
	deduce(&w, "a", "two", TWO);
	add(&w.checkpoint, "a", "two", ONE, "a.one");
	add(&w.checkpoint, "a", "one", TWO, "a.two");
	assert_int_equal(follow(&w, ONE), ANSWERED_ANOTHERS);
	assert_name(&w, "a", "one", "a.two");
	assert_name(&w, "a", "two", "a.one");
	end(&w);
}

static void a_checkpoint_without_the_ids_says_nothing_and_takes_nothing(void **state)
{
	struct world w;

	begin(&w);
	deduce(&w, "a", "main", ONE);
	assert_int_equal(follow(&w, ONE), ANSWERED_UNKNOWN);
	add(&w.checkpoint, "b", "main", TWO, "c.main"); /* of a pod that is over */
	assert_int_equal(follow(&w, ONE), ANSWERED_UNKNOWN);
	assert_null(served_find(&w.record, "b", "main"));
	assert_name(&w, "a", "main", "a.main");
	end(&w);
}

/* Two writers at once: the content with the pod that had these ids before comes last. */
static void an_old_checkpoint_does_not_take_the_ids_from_their_present_container(void **state)
{
	struct world w;

	begin(&w);
	deduce(&w, "new", "main", ONE);
	add(&w.checkpoint, "old", "main", ONE, NULL);
	assert_int_equal(follow(&w, ONE), ANSWERED_ITS_OWN);
	assert_non_null(served_find(&w.record, "new", "main"));
	assert_name(&w, "new", "main", "new.main");
	end(&w);
}

static void record_that_was_lost_is_completed_by_the_ids_that_are_asked_for(void **state)
{
	struct world w;

	begin(&w);
	add(&w.record, "forgotten", "main", TWO, NULL); /* its object is gone, its container runs */
	add(&w.checkpoint, "a", "main", ONE, NULL);
	add(&w.checkpoint, "b", "init", ONE, NULL);
	assert_int_equal(follow(&w, ONE), ANSWERED_ITS_OWN);
	assert_non_null(served_find(&w.record, "a", "main"));
	assert_non_null(served_find(&w.record, "b", "init"));
	assert_true(served_has_started(&w.record, "forgotten"));
	end(&w);
}

static void a_container_that_was_served_anew_has_the_ids_of_the_checkpoint(void **state)
{
	struct world w;

	begin(&w);
	deduce(&w, "a", "main", TWO);
	add(&w.checkpoint, "a", "main", ONE, NULL);
	assert_int_equal(follow(&w, ONE), ANSWERED_ITS_OWN);
	assert_true(served_has_ids(served_find(&w.record, "a", "main"), ONE, 2));
	end(&w);
}

static void names_that_have_no_uid_are_not_taken_apart(void **state)
{
	static const char *const bad[] = {"", ".", ".main", "uid", "toolonguid.main"};
	char uid[8];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(answered_uid(bad[i], uid, sizeof(uid)));
	assert_true(answered_uid("u.c.2", uid, sizeof(uid)));
	assert_string_equal(uid, "u");
}

/* Two living pods can have the same ids (served.h). The kubelet removes the one that is gone from its
 * checkpoint when it gives devices to another pod. */
static void a_pod_that_is_over_is_not_taken_back_with_ids_that_another_one_has_too(void **state)
{
	struct world w;

	begin(&w);
	exists(&w, "b");
	deduce(&w, "b", "main", ONE);
	add(&w.checkpoint, "over", "main", ONE, NULL);
	add(&w.checkpoint, "b", "main", ONE, NULL);
	assert_int_equal(follow(&w, ENO), ANSWERED_ITS_OWN);
	assert_false(served_knows(&w.record, "over"));
	assert_non_null(served_find(&w.record, "b", "main"));
	end(&w);
}

static void a_pod_that_is_over_does_not_need_the_device_that_another_one_was_answered(void **state)
{
	struct world w;

	begin(&w);
	exists(&w, "b");
	add(&w.record, "b", "main", ONE, "over.main");
	add(&w.checkpoint, "over", "main", ONE, NULL);
	add(&w.checkpoint, "b", "main", ONE, "over.main");
	assert_int_equal(follow(&w, ONE), ANSWERED_ANOTHERS);
	assert_name(&w, "b", "main", "over.main");
	end(&w);
}

static void a_pod_that_is_over_is_not_taken_back_for_the_device_that_it_was_answered(void **state)
{
	struct world w;

	begin(&w);
	exists(&w, "a");
	exists(&w, "b");
	deduce(&w, "a", "main", ONE);
	deduce(&w, "b", "main", TWO);
	add(&w.checkpoint, "over", "main", ONE, "b.main"); /* a was served after this was written */
	add(&w.checkpoint, "b", "main", TWO, NULL);
	assert_int_equal(follow(&w, TWO), ANSWERED_ITS_OWN);
	assert_false(served_knows(&w.record, "over"));
	end(&w);
}

static void while_the_pods_are_not_all_known_none_counts_as_over(void **state)
{
	struct world w;

	begin(&w);
	deduce(&w, "b", "main", ONE);
	add(&w.checkpoint, "a", "main", ONE, NULL);
	add(&w.checkpoint, "b", "main", ONE, NULL);
	assert_int_equal(follow(&w, ONE), ANSWERED_ITS_OWN);
	assert_non_null(served_find(&w.record, "a", "main"));
	end(&w);
}

/* The kubelet can be faster than the watch. */
static void a_pod_that_was_not_shown_is_taken_if_no_other_pod_can_be_meant(void **state)
{
	struct world w;

	begin(&w);
	exists(&w, "b");
	add(&w.checkpoint, "new", "main", ONE, NULL);
	add(&w.checkpoint, "b", "main", TWO, NULL);
	assert_int_equal(follow(&w, ONE), ANSWERED_ITS_OWN);
	assert_non_null(served_find(&w.record, "new", "main"));
	end(&w);
}

/* The agent took its call for one of a. c has the same ids. */
static void a_pod_that_was_not_shown_is_taken_if_it_was_answered_anothers_device(void **state)
{
	struct world w;

	begin(&w);
	exists(&w, "a");
	exists(&w, "c");
	deduce(&w, "a", "main", ONE);
	deduce(&w, "c", "main", ONE);
	add(&w.checkpoint, "new", "main", ONE, "a.main");
	add(&w.checkpoint, "c", "main", ONE, NULL);
	assert_int_equal(follow(&w, ONE), ANSWERED_ANOTHERS);
	assert_null(served_find(&w.record, "a", "main"));
	assert_name(&w, "new", "main", "a.main");
	assert_name(&w, "c", "main", "c.main");
	end(&w);
}

/* The kubelet may start a container that the record has, so the record must say which device it was answered.
 */
static void an_entry_of_the_record_follows_the_checkpoint_whatever_the_api_server_shows(void **state)
{
	struct world w;

	begin(&w);
	exists(&w, "b");
	deduce(&w, "over", "main", ONE);
	deduce(&w, "b", "main", ONE);
	add(&w.checkpoint, "over", "main", ONE, "b.main");
	add(&w.checkpoint, "b", "main", ONE, NULL);
	assert_int_equal(follow(&w, ONE), ANSWERED_TWICE);
	assert_name(&w, "over", "main", NULL);
	assert_name(&w, "b", "main", "b.main");
	end(&w);
}

/* A name that only begins like one's own is another's. */
static void own_names_are_those_with_a_number_behind_them(void **state)
{
	struct world w;

	begin(&w);
	add(&w.checkpoint, "a", "main", ONE, "a.mainly");
	assert_int_equal(follow(&w, ONE), ANSWERED_ANOTHERS);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_that_was_meant_so_changes_nothing),
		cmocka_unit_test(another_pods_answer_becomes_the_owners_under_the_same_name),
		cmocka_unit_test(two_answers_that_were_swapped_are_both_corrected_by_one_look),
		cmocka_unit_test(a_device_that_its_own_container_has_is_not_given_to_another),
		cmocka_unit_test(one_device_that_two_others_were_answered_is_given_to_neither),
		cmocka_unit_test(containers_of_one_pod_are_told_apart),
		cmocka_unit_test(a_checkpoint_without_the_ids_says_nothing_and_takes_nothing),
		cmocka_unit_test(an_old_checkpoint_does_not_take_the_ids_from_their_present_container),
		cmocka_unit_test(record_that_was_lost_is_completed_by_the_ids_that_are_asked_for),
		cmocka_unit_test(a_container_that_was_served_anew_has_the_ids_of_the_checkpoint),
		cmocka_unit_test(a_pod_that_is_over_is_not_taken_back_with_ids_that_another_one_has_too),
		cmocka_unit_test(a_pod_that_is_over_does_not_need_the_device_that_another_one_was_answered),
		cmocka_unit_test(a_pod_that_is_over_is_not_taken_back_for_the_device_that_it_was_answered),
		cmocka_unit_test(while_the_pods_are_not_all_known_none_counts_as_over),
		cmocka_unit_test(a_pod_that_was_not_shown_is_taken_if_no_other_pod_can_be_meant),
		cmocka_unit_test(a_pod_that_was_not_shown_is_taken_if_it_was_answered_anothers_device),
		cmocka_unit_test(an_entry_of_the_record_follows_the_checkpoint_whatever_the_api_server_shows),
		cmocka_unit_test(names_that_have_no_uid_are_not_taken_apart),
		cmocka_unit_test(own_names_are_those_with_a_number_behind_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
