/* gang-tales.h - what is decided about gangs goes into the flight recorder, and plans into the journal. */
#pragma once

struct gang_tale;

/* gang_tales_listen() - the listener of struct gangs; userdata: the scheduler. */
void gang_tales_listen(void *userdata, const struct gang_tale *tale);
