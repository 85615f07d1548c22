"""Two nodes with GPUs of different size, which several tests share: a lab is started for them once."""
NODES = ["crowd-a.192.168.20.1=2x16160MiB+2x8192MiB,share", "crowd-b.192.168.20.2=2x24576MiB+1x10240MiB+1x5120MiB,share"]
