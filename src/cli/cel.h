/* cel.h - the CEL selectors of DeviceClasses and claims that ration can evaluate, to explain a decision of
 * kube-scheduler. Pure. */
#pragma once

struct device_slice;
struct slice_device;

enum cel_verdict {
	CEL_FALSE,
	CEL_TRUE,
	CEL_FAILS, /* it names an attribute that the device does not have: kube-scheduler stops with an error
		    */
	CEL_UNKNOWN, /* it has a form that is not evaluated here */
};

/* cel_evaluate() - comparisons joined by &&: device.driver or device.attributes["DOMAIN"].NAME with == or !=
 * and a text, a whole number, true or false; or such a text with .startsWith("..."), .endsWith("...") or
 * .contains("..."). */
enum cel_verdict cel_evaluate(
	const char *expression, const struct device_slice *slice, const struct slice_device *device);
