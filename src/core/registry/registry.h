/* registry.h - nodes, GPUs and pods as the ledger keeps them. Only the functions of ledger.h change them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/table.h"
#include "core/registry/demand.h"
#include "core/registry/owners.h"
#include "model/facts.h"

/* How late the open watch of pods may be. kube-scheduler may ask about a pod, and the API server may have
 * applied a Binding, before the watch has shown it. What the watch has not shown after this time does not
 * exist. */
#define WATCH_LAG_MAX_NS (INT64_C(10) * 1000 * 1000 * 1000)
/* How long the containers of a deleted pod may run on if their node says nothing of them
 * (ledger_delete_pod()). */
#define ORPHAN_NS (INT64_C(30) * 1000 * 1000 * 1000)

struct ledger_resize;
struct links;
struct nomination;

struct gpu_ledger {
	struct gpu_facts facts;
	char *reason; /* why it is not healthy, as in struct gpu_details; usually NULL */
	uint32_t units_total;
	uint32_t units_used; /* may exceed the total if the API server shows it so (a GPU shrank, or was
				renamed) */
	uint32_t core_used;  /* percent; likewise */
	uint32_t instances;
	uint32_t instances_max; /* 0: no limit */
};

/* Sums over all GPUs of a node. They answer most queries without reading the GPUs: with thousands of nodes,
 * reading every GPU would be most of a filter call. */
struct gpu_sums {
	uint32_t largest;	 /* units_total of the largest GPU */
	uint32_t most_free;	 /* units free on the healthy GPU with most */
	uint32_t most_instances; /* containers on the healthy GPU with most, where they are limited */
	uint64_t free;		 /* units free on the healthy GPUs */
	uint64_t free_ill;	 /* units free on the others */
	uint64_t core_free;	 /* percent free on the healthy GPUs */
	uint64_t core_free_ill;	 /* percent free on the others */
	/* These order nodes: a GPU is as free as the scarcer one of its memory and computing power. */
	uint32_t milli_free;		   /* thousandths of a GPU free on the healthy GPUs */
	uint32_t whole;			   /* healthy GPUs that are entirely free */
	uint16_t gpu_milli[NODE_GPUS_MAX]; /* thousandths free on each GPU; 0 if it is not healthy */
};

struct node_ledger {
	/* A filter call reads the members up to `held` of thousands of nodes, so they are together. */
	struct gpu_sums sums;
	struct host_sum taken;	 /* requested by the pods of both lists, pods and host_pods */
	uint32_t unplaced_units; /* of pods that another scheduler bound, or whose placement names no GPU of
				    this node */
	uint32_t unplaced_core;	 /* likewise, percent */
	/* The kubelet counts device ids by the pods' specs. This is how many ids it gives beyond the units
	 * that the pods occupy: those of pods that were made smaller, less those of pods that grew. */
	int64_t surplus_ids;
	int64_t surplus_ids_ill;	/* those of them that are ids of GPUs that are not healthy */
	size_t with_core, without_core; /* pods that ask for a percentage, and for memory only */
	struct list nominations;	/* nomination.item */
	struct gpu_model *model;	/* in ledger->demand; NULL: unknown */
	bool agent_lost;		/* its agent's Lease is not renewed any more */
	uint32_t number;		/* unique in this ledger for all time: no other node has or had it */
	/* As in struct node_facts, without the GPUs: what the ledger keeps of them is in `gpus` and `links`.
	 * With thousands of nodes their details would take most of the memory. */
	struct {
		char *name;
		char *uid; /* NULL while only pods name the node */
		enum gpu_mode mode;
		enum gpu_policy policy;
		size_t n_gpus;
		uint32_t unit_mib;
		uint32_t instances_max;
		bool mixing;
		bool serving;
		bool changing;
		bool held_unreadable;
		struct host_amount host; /* allocatable */
		struct held held;
		char *address;
	} facts;
	int64_t heard_ns;	  /* when its agent renewed its Lease last; 0: it has none */
	struct list pods;	  /* ledger_pod.item */
	struct list host_pods;	  /* host_pod.item */
	uint64_t recounts;	  /* repairs of a sum that would have gone below zero; a bug if not 0 */
	struct gpu_ledger *gpus;  /* facts.n_gpus of them */
	struct gpu_supply supply; /* what the node adds to its model */
	struct links *links;	  /* between its GPUs; NULL where nothing is known, or GPUs are shared */
};

enum occupancy {
	OCCUPANCY_WAITING,   /* known, not bound, holds nothing */
	OCCUPANCY_TENTATIVE, /* promised by an answer of filter, ends by itself */
	OCCUPANCY_RESERVED,  /* a Binding is on its way */
	OCCUPANCY_BOUND,     /* the API server shows it bound */
	OCCUPANCY_ORPHAN,    /* gone from the API server, but its containers may still use the GPU */
	OCCUPANCY_MAX,
};

struct ledger_pod {
	struct list item; /* in node->pods while it occupies something there */
	struct list hold; /* in ledger->holds while it ends at expires_ns */
	struct pod_facts facts;
	enum occupancy occupancy;
	char *node; /* where it occupies, NULL while waiting */
	bool has_placement;
	struct placement placement; /* what it occupies there; empty: unplaced */
	int64_t expires_ns; /* end of a tentative hold or an orphan; 0 while the node lists the orphan,
			       ORPHAN_UNTIMED (orphan.h) */
	struct ledger_resize *resize;  /* another size on its way (resize.h); NULL if none is */
	struct nomination *nomination; /* the GPU from which other pods are evicted for it; NULL if none */
	struct pod_demand demand;      /* what it adds to ledger->demand */
	bool listed;		       /* the watch has shown it; if not, it is forgotten with its hold */
};

/* How nodes that fit are compared, unless the connections of their GPUs or the label "spread" decide. */
enum node_order {
	NODE_ORDER_BALANCED, /* what they have left (placement/node-order.h) */
	NODE_ORDER_FULLEST,  /* the one with the least free GPU memory */
	NODE_ORDER_MAX,
};

/* Sums over the nodes with GPUs whose CPU is known. */
struct gpu_hosts {
	struct host_sum all, left; /* what they can allocate, and what their pods have left of it */
	uint64_t gpus, milli_left; /* their GPUs, and the thousandths of GPUs that are free on them */
};

struct ledger {
	struct table nodes;	 /* name -> struct node_ledger (also for nodes named by pods only) */
	struct table pods;	 /* uid -> struct ledger_pod; only pods that ask for a GPU */
	struct list holds;	 /* ledger_pod.hold: all that ends by itself */
	struct list nominations; /* nomination.all */
	uint32_t n_nodes_ever;	 /* each node_ledger.number is below this */
	struct owners owners;	 /* of the pods that occupy something */
	struct table host_pods;	 /* uid -> struct host_pod, of pods that ask for no GPU and are on a node */
	struct gpu_hosts hosts;
	struct demand demand; /* for GPU models, by all pods that have not ended */
	enum node_order node_order;
	uint64_t generation; /* grows whenever something was freed or added: what was rejected before may fit
				now */
	uint64_t capacity;   /* grows whenever a node may hold more than before, regardless of its pods */
	int32_t lowest_priority; /* that any pod ever had */
	int64_t nodes_told_ns;	 /* the time up to which the watch of nodes has told everything */
};
