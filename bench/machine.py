"""What a figure was measured on."""

import os
import platform


def processor():
    """Model name, family and model of the processor, as `AMD EPYC (family 25 model 17)`. Some machines give a whole generation one name."""
    fields = {}
    try:
        with open("/proc/cpuinfo") as info:
            for line in info:
                name, _, value = line.partition(":")
                fields.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    name = fields.get("model name") or platform.processor() or platform.machine()
    family, model = fields.get("cpu family"), fields.get("model")
    return f"{name} (family {family} model {model})" if family and model else name


def machine():
    """The processors, for the head of a table."""
    return f"{os.cpu_count()} CPUs: {processor()}"
