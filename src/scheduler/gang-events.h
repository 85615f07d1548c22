/* gang-events.h - what is decided about gangs goes into the flight recorder, and plans into the journal. */
#pragma once

struct gang_event;

/* gang_events_listen() - the listener of struct gangs; userdata: the scheduler. */
void gang_events_listen(void *userdata, const struct gang_event *event);
