"""What the drivers export, the substitutes must have: a program that is linked with such a name does not start without it."""
import pytest

from probes import SHIM, SONAMES, exported


@pytest.mark.parametrize("soname", SONAMES)
def test_the_shim_has_what_the_driver_exports(driver, soname):
    assert exported(driver.library(soname)) - exported(SHIM / soname) == set()
