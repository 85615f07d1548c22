#!/bin/bash
exec python /root/tensorflow-sample-code/tfjob/docker/mnist/main.py --max_steps=100000000 "$@"
