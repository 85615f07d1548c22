"""A real Kubernetes on one machine: etcd, API server, scheduler, and nodes made of namespaces."""
