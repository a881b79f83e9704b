#!/bin/bash
case "$2" in
+*) echo "${2#+}" >"$EMULATOR_SCHEDULED" ;;
esac
exit 0
