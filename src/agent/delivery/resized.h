/* resized.h - pods that got another size while they run (`ration set`): the limits of their containers follow
 * their placement, without a restart. */
#pragma once

struct agent;

/* resized_follow() - of all pods of the node; nothing twice. To be called whenever something new is known of
 * a pod: before a call of the kubelet is answered the limits must be those that its answer counts with. More
 * than a GPU has is not given (two schedulers at a change of the leader): the limits stay then, with an
 * Event, until others have gone. */
void resized_follow(struct agent *agent);
