# shellcheck shell=bash
# Part of host.sh: starts Redis in the background.
# shellcheck disable=SC2154 # `address` is set by host.sh
module_url=@MODULE_URL@
malloc_conf=@MALLOC_CONF@

dnf install -y -q redis6
load=()
if [ -n "$module_url" ]; then
    copy "$module_url" module.so
    # Redis loads no module that cannot be executed.
    chmod +x module.so
    load=(--loadmodule /opt/epochcost/module.so)
fi
if [ -n "$malloc_conf" ]; then
    # The distribution's allocator reads the first name, Redis' own copy of it the second.
    export MALLOC_CONF="$malloc_conf" JE_MALLOC_CONF="$malloc_conf"
fi
# Unprotected: the security group admits members of the run alone.
redis6-server --port @PORT@ --bind "$address" --protected-mode no --save '' --appendonly no "${load[@]}" &
