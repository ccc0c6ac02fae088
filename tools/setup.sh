#!/bin/sh
# Makes .venv with Recovery in it. usage: tools/setup.sh [EXTRA,EXTRA ...]
# Needs python3 >= 3.11. As root on Debian or Ubuntu it installs python3-venv when that is missing.
set -eu
cd "$(dirname "$0")/.."
extras=${1:-}
python=${PYTHON:-python3}
venv=${VENV:-.venv}

if ! command -v "$python" >/dev/null 2>&1; then
    echo "setup: $python is not there; install python3 (3.11 or newer) or set PYTHON=/path/to/python3" >&2
    exit 2
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "setup: $("$python" --version) is too old; Recovery needs 3.11 or newer (set PYTHON=/path/to/python3)" >&2
    exit 2
fi

stamp="$venv/.ready-$(echo "$extras" | tr ',' '-')"
if [ -f "$stamp" ] && [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt constraints.txt ] && [ -x "$venv/bin/recovery" ]; then
    exit 0
fi

if [ ! -x "$venv/bin/python" ]; then
    if ! "$python" -m venv "$venv" >/tmp/recovery-venv.$$ 2>&1; then
        rm -rf "$venv"
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
            "$python" -m venv "$venv"
        else
            cat /tmp/recovery-venv.$$ >&2
            rm -f /tmp/recovery-venv.$$
            echo "setup: could not make $venv; on Debian or Ubuntu: apt-get install python3-venv" >&2
            exit 2
        fi
    fi
    rm -f /tmp/recovery-venv.$$
fi

target=.
[ -z "$extras" ] || target=".[$extras]"
echo "setup: installing Recovery into $venv (a minute the first time)" >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable "$target"
touch "$stamp"
