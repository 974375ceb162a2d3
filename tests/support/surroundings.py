"""Where tests run: no network, no cache of the user's, one core a worker. Imported first."""

import atexit
import os
import shutil
import signal
import tempfile

from hypothesis import HealthCheck, settings

os.environ["HEADS_CACHE"] = tempfile.mkdtemp(prefix="heads-test-")
atexit.register(shutil.rmtree, os.environ["HEADS_CACHE"], ignore_errors=True)
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # whoever names one runs test_device.py on it
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # each of the workers has one core
for name in ("HEADS_PUBLIC", "SPACE_ID"):
    os.environ.pop(name, None)
# Behind `&` a shell has a job ignore Ctrl-C, and all that the job starts inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long a value takes to draw says something of the machine, which is shared, not of the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")
