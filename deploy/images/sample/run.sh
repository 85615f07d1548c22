#!/bin/bash
# Takes the arguments of the documents' benchmark image and runs our own program.
exec python /root/benchmark.py "$@"
