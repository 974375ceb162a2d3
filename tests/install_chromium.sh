#!/bin/sh
# The browser test needs Chromium. Installs Debian's where it is missing and that is possible;
# where it is not, the test says that it is skipped and why.
for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null 2>&1 && exit 0
done
[ -n "$CHROMIUM" ] && exit 0
command -v apt-get >/dev/null 2>&1 || exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
echo "Installing Chromium for the browser test."
{ $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium; } \
  >/dev/null 2>&1 || echo "Chromium could not be installed; the browser test will be skipped."
exit 0
