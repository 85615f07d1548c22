/* What is to be done with the certificates of the webhook, by time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "net/certificate.h"
#include "scheduler/certificates.h"

#define HOST "ration-webhook.kube-system.svc"
#define NOW INT64_C(1700000000)
#define DAY INT64_C(86400)

static void make(char **ret_certificate, char **ret_key, const char *host, int64_t days)
{
	struct error err = {""};

	assert_int_equal(certificate_make(host, NOW, NOW + days * DAY, ret_certificate, ret_key, &err), 0);
}

static enum certificates_step plan(const struct certificates *certificates, int64_t days_later,
	bool next_is_trusted, const char *want_why)
{
	struct error why = {""};
	int64_t ends_s;
	enum certificates_step step = certificates_plan(
		certificates, HOST, NOW + days_later * DAY, next_is_trusted, &ends_s, &why);

	if (want_why)
		assert_non_null(strstr(why.text, want_why));
	return step;
}

static void a_certificate_is_made_renewed_and_replaced_by_time(void **state)
{
	struct certificates certificates = {0};
	int64_t renew_days = CERTIFICATE_RENEW_S / DAY;

	assert_int_equal(plan(&certificates, 0, false, "no certificate was given"), CERTIFICATES_MAKE);
	make(&certificates.current, &certificates.key, HOST, 365);
	assert_int_equal(plan(&certificates, 0, false, NULL), CERTIFICATES_KEEP);
	assert_int_equal(plan(&certificates, -2, false, "is not valid yet"), CERTIFICATES_MAKE);
	assert_int_equal(plan(&certificates, 365, false, "has expired"), CERTIFICATES_MAKE);
	assert_int_equal(plan(&certificates, 365 - renew_days - 1, false, NULL), CERTIFICATES_KEEP);
	assert_int_equal(plan(&certificates, 365 - renew_days, false, NULL), CERTIFICATES_MAKE_NEXT);
	make(&certificates.next, &certificates.next_key, HOST, 400 + renew_days);
	assert_int_equal(plan(&certificates, 365 - renew_days, false, NULL), CERTIFICATES_KEEP);
	assert_int_equal(plan(&certificates, 365 - renew_days, true, NULL), CERTIFICATES_PROMOTE);
	/* A next one that ends soon itself is none. */
	assert_int_equal(plan(&certificates, 364, true, NULL), CERTIFICATES_PROMOTE);
	free(certificates.next);
	free(certificates.next_key);
	make(&certificates.next, &certificates.next_key, HOST, 365);
	assert_int_equal(plan(&certificates, 364, true, NULL), CERTIFICATES_MAKE_NEXT);
	certificates_release(&certificates);
}

static void a_certificate_of_another_service_or_key_is_none(void **state)
{
	struct certificates certificates = {0};
	char *other, *other_key;

	make(&certificates.current, &certificates.key, "other.example", 365);
	assert_int_equal(plan(&certificates, 0, false, "not for " HOST), CERTIFICATES_MAKE);
	certificates_release(&certificates);
	make(&certificates.current, &certificates.key, HOST, 365);
	make(&other, &other_key, HOST, 365);
	free(certificates.key);
	certificates.key = other_key;
	free(other);
	assert_int_equal(plan(&certificates, 0, false, "the key does not belong to the certificate"),
		CERTIFICATES_MAKE);
	certificates_release(&certificates);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_certificate_is_made_renewed_and_replaced_by_time),
		cmocka_unit_test(a_certificate_of_another_service_or_key_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
