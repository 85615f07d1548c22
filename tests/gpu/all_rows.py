"""Imports every file of rows; the order is that of the page."""
import rows_limit     # noqa: F401
import rows_driver    # noqa: F401
import rows_shared    # noqa: F401
import rows_power     # noqa: F401
import rows_tools     # noqa: F401
import rows_cost      # noqa: F401
