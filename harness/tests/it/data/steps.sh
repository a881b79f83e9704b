#!/bin/sh
# A program of no framework that reports its own steps.
echo "model trainable=1000 parameters=1000" > "$EPOCHCOST_PROFILE_PIPE"
while true; do
    sleep 0.01
    echo "step samples=$1" > "$EPOCHCOST_PROFILE_PIPE"
done
