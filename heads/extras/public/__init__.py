"""A server for strangers: quotas, rate limits, proxies, and a log without a word of a visitor."""

from heads.plugins import Extra

HERE = "heads.extras.public"
EXTRA = Extra(
    name="public",
    summary="A page that strangers can open: quotas, rate limits, and a private log.",
    server=f"{HERE}.server:ProtectedServer",
    middleware=f"{HERE}.middleware:protect_app",
    admission=f"{HERE}.janitor:admit",
)
