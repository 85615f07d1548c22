"""ResourceClaims for ration's driver, and the pods that use them."""
DRIVER = "gpu.ration.dev"
WHOLE = "whole.gpu.ration.dev"
GROUP = "resource.k8s.io/v1"


def ask(memory=None, cores=None, device_class=DRIVER, selector=None, **more):
    """What a request asks for: the field `exactly`, or with a name one of `firstAvailable`."""
    asked = {name: value for name, value in (("memory", memory), ("cores", cores)) if value is not None}
    return {"deviceClassName": device_class, **({"capacity": {"requests": asked}} if asked else {}),
            **({"selectors": [{"cel": {"expression": selector}}]} if selector else {}), **more}


def config(**parameters):
    """Parameters for the driver; apiVersion and kind may be given, too."""
    return {"opaque": {"driver": DRIVER, "parameters": {"apiVersion": "ration.dev/v1", "kind": "GpuConfig", **parameters}}}


def devices(*requests, configs=()):
    """requests: what ask() gives, or a list of alternatives."""
    named = [{"name": f"r{i}", **({"firstAvailable": [{"name": f"s{n}", **s} for n, s in enumerate(r)]} if isinstance(r, list)
                                  else {"exactly": r})} for i, r in enumerate(requests)]
    return {"requests": named, **({"config": list(configs)} if configs else {})}


def claim(name, *requests, configs=()):
    return {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": {"devices": devices(*requests, configs=configs)}}


def template(name, *requests, configs=()):
    return {"apiVersion": GROUP, "kind": "ResourceClaimTemplate", "metadata": {"name": name},
            "spec": {"spec": {"devices": devices(*requests, configs=configs)}}}


def device_class(name, configs=(), expression=f"device.driver == '{DRIVER}'"):
    return {"apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}], **({"config": list(configs)} if configs else {})}}
