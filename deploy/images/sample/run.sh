#!/bin/bash
# Takes the arguments of the documents' benchmark image and runs our own sample program.
exec python /root/tensorflow-sample-code/tfjob/docker/mnist/main.py "$@"
