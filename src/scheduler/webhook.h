/* webhook.h - the mutating webhook, for API servers without MutatingAdmissionPolicy (before Kubernetes 1.36).
 *
 * A server with TLS answers admission reviews (admission.h). Its certificate is in the Secret with the
 * Service's name, and the webhook configurations of the charts trust it. Every replica checks both each 10 s,
 * creates what is missing and renews what ends (certificates.h). So neither helm nor users have to handle
 * certificates. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;
struct metrics;
struct scheduler;
struct webhook;

/* webhook_is_valid_service() - NAMESPACE/NAME as Kubernetes names Services. */
bool webhook_is_valid_service(const char *service);

/* webhook_start() - listens on address and port. service: valid by webhook_is_valid_service(). */
int webhook_start(struct scheduler *scheduler, const char *service, const char *address, uint16_t port,
	struct webhook **ret_webhook, struct error *err);
void webhook_stop(struct webhook *webhook); /* accepts NULL */

uint16_t webhook_port(const struct webhook *webhook);

/* webhook_is_known() - the webhook has a certificate, or the first try to get one has failed. Stays true;
 * true for NULL. */
bool webhook_is_known(const struct webhook *webhook);

/* webhook_metrics() - writes nothing for NULL. */
void webhook_metrics(const struct webhook *webhook, struct metrics *page);
