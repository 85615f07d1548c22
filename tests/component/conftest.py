"""Component tests: nothing but their marks."""


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: judges milliseconds, or shares of time on a simulated card, and needs a "
                                       "processor when it has credit: not beside the other tests, and not with sanitizers, "
                                       "which are in no library that such a program loads")
    config.addinivalue_line("markers", "waits: takes more than 3 s or so, mostly for times to pass: with sanitizers in the "
                                       "full form only")
