"""The parts of a release that deploy/package makes."""
