/* strays.h - pods that we know by a GET only. The kubelet was faster than our watch, or the pod went before
 * the watch could show it: then nobody tells its end, and it would hold the node's mode and its CDI file for
 * ever. */
#pragma once

struct agent;
struct strays;

int strays_new(struct agent *agent, struct strays **ret_strays);
void strays_free(struct strays *strays); /* accepts NULL */

/* strays_look() - asks for the next stray, one at a time; forgets it if it is gone or another node's. Only
 * while the watch is open: before that, it may still show the pod. */
void strays_look(struct strays *strays);
