/* client.h - campaign-client: a program that allocates in every way that the CUDA driver has, with many
 * threads and processes, and is killed at any moment.
 *
 * client.c is the first process of a run: it starts, kills and replaces workers. worker.c is one of them:
 * threads that draw calls from calls.c. All processes of the run share one mapped file, struct board.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuda/functions.h"

#define MIB (UINT64_C(1) << 20)
#define SLOTS_MAX 24
#define THREADS_MAX 32
#define OFFERS_MAX 16
#define PIECE_BYTES (16 * MIB)

enum kind {
	KIND_ALLOC,
	KIND_PITCH,
	KIND_MANAGED,
	KIND_ARRAY,
	KIND_MIPMAP,
	KIND_VIRTUAL,
	KIND_ASYNC,
	KIND_POOL,
	KIND_GRAPH,
	KIND_CAPTURE,
	KIND_IPC,
	KIND_CONTEXT,
	KIND_MODULE,
	KIND_LIMIT,
	KIND_CHILD, /* not a call: fork(), and another program in the child */
	KIND_MAX,
};

/* What the workers do; each of them follows. */
enum stage {
	STAGE_MIX,  /* threads allocate and free */
	STAGE_HOLD, /* the threads have ended, and what they hold stays */
	STAGE_FREE, /* everything is freed, but for each process's first context */
	STAGE_END,
};

enum order { ORDER_NONE, ORDER_FILL, ORDER_EMPTY };

struct slot {
	_Atomic uint32_t taken;
	_Atomic int32_t pid;	  /* as the first process sees it */
	_Atomic uint32_t reached; /* the last stage that this process has completed */
	_Atomic uint32_t order;	  /* enum order; the worker sets it to ORDER_NONE when it has obeyed */
	_Atomic uint32_t pieces;  /* how many a fill got */
	_Atomic uint64_t
		reserved; /* at most what the process holds of the GPU; only counted where a budget is set */
};

/* Memory that another process may open. */
struct offer {
	_Atomic uint32_t state; /* 0 free, 1 being written, 2 there */
	_Atomic uint32_t slot;
	uint64_t bytes;
	CUipcMemHandle handle;
};

struct board {
	uint64_t seed;
	uint32_t threads;
	uint32_t kinds;	  /* bits of enum kind */
	uint64_t budget;  /* 0: take what there is; else the run's processes stay below it, and no call is
			     refused */
	uint64_t largest; /* of one allocation */
	uint64_t context_bytes;
	uint32_t nap_us; /* a thread rests up to so long between two calls */
	bool forks;
	_Atomic uint32_t stage;
	_Atomic uint64_t calls[KIND_MAX], refused[KIND_MAX], failed[KIND_MAX];
	_Atomic uint64_t children, last_seed;
	struct slot slots[SLOTS_MAX];
	struct offer offers[OFFERS_MAX];
};

/* What one call got. */
struct held {
	enum kind kind;
	uint64_t cost; /* of the budget */
	uint64_t bytes;
	union {
		CUdeviceptr pointer;
		CUarray array;
		CUmipmappedArray mipmap;
		CUcontext context;
		CUmodule module;
		struct {
			CUmemGenericAllocationHandle handle;
			CUdeviceptr at; /* 0: not mapped */
		} vm;
		struct {
			CUgraph graph;
			CUgraphExec exec;
			CUdeviceptr pointer;
			bool frees; /* the graph frees its memory itself */
		} graph;
		struct {
			CUdeviceptr pointer;
			struct offer *offer; /* NULL: opened from another process */
		} ipc;
		struct {
			int slot;
			pid_t pid;
		} child;
	};
};

/* One thread of a worker. Its objects are freed by it, or by the first thread after it has ended. */
struct caller {
	struct board *board;
	struct slot *slot;
	CUcontext context; /* the process's own */
	bool inside;	   /* of a pid namespace */
	CUstream stream;
	CUmemoryPool pool; /* NULL until it is needed */
	uint64_t random;
	unsigned percent_self_freeing; /* of the process's graphs */
	bool trims, even_sizes;
	struct held held[64];
	unsigned count;
};

#define FUNCTIONS(X)                                                                                         \
	X(cuInit)                                                                                            \
	X(cuCtxCreate_v2)                                                                                    \
	X(cuCtxDestroy_v2)                                                                                   \
	X(cuCtxSetCurrent)                                                                                   \
	X(cuCtxPopCurrent_v2)                                                                                \
	X(cuCtxSetLimit)                                                                                     \
	X(cuCtxGetLimit)                                                                                     \
	X(cuCtxSynchronize)                                                                                  \
	X(cuDevicePrimaryCtxRetain)                                                                          \
	X(cuMemAlloc_v2)                                                                                     \
	X(cuMemFree_v2)                                                                                      \
	X(cuMemAllocPitch_v2)                                                                                \
	X(cuMemAllocManaged)                                                                                 \
	X(cuArrayCreate_v2)                                                                                  \
	X(cuArray3DCreate_v2)                                                                                \
	X(cuArrayDestroy)                                                                                    \
	X(cuMipmappedArrayCreate)                                                                            \
	X(cuMipmappedArrayDestroy)                                                                           \
	X(cuMemCreate)                                                                                       \
	X(cuMemRelease)                                                                                      \
	X(cuMemAddressReserve)                                                                               \
	X(cuMemAddressFree)                                                                                  \
	X(cuMemMap)                                                                                          \
	X(cuMemUnmap)                                                                                        \
	X(cuMemAllocAsync)                                                                                   \
	X(cuMemFreeAsync)                                                                                    \
	X(cuMemAllocFromPoolAsync)                                                                           \
	X(cuMemPoolCreate)                                                                                   \
	X(cuMemPoolDestroy)                                                                                  \
	X(cuMemPoolTrimTo)                                                                                   \
	X(cuMemPoolSetAttribute)                                                                             \
	X(cuDeviceGetDefaultMemPool)                                                                         \
	X(cuStreamCreate)                                                                                    \
	X(cuStreamSynchronize)                                                                               \
	X(cuStreamBeginCapture_v2)                                                                           \
	X(cuStreamEndCapture)                                                                                \
	X(cuGraphCreate)                                                                                     \
	X(cuGraphDestroy)                                                                                    \
	X(cuGraphAddMemAllocNode)                                                                            \
	X(cuGraphAddMemFreeNode)                                                                             \
	X(cuGraphInstantiateWithFlags)                                                                       \
	X(cuGraphLaunch)                                                                                     \
	X(cuGraphExecDestroy)                                                                                \
	X(cuDeviceGraphMemTrim)                                                                              \
	X(cuIpcGetMemHandle)                                                                                 \
	X(cuIpcOpenMemHandle_v2)                                                                             \
	X(cuIpcCloseMemHandle)                                                                               \
	X(cuModuleLoadData)                                                                                  \
	X(cuModuleUnload)

extern struct driver_calls {
#define MEMBER(name) __typeof__(name) *name;
	FUNCTIONS(MEMBER)
#undef MEMBER
} cu;

/* driver_load() - finds the driver as any program does. False: it said why. */
bool driver_load(void);

extern const char *const kind_names[KIND_MAX];

/* caller_random() - evenly distributed below `below`. */
uint64_t caller_random(struct caller *caller, uint64_t below);

/* board_reserve() - room within the budget for a process; false: there is none. board_release() gives it
 * back. */
bool board_reserve(struct board *board, struct slot *slot, uint64_t bytes);
void board_release(struct slot *slot, uint64_t bytes);

/* call_take() - one allocation of this kind. CUDA_SUCCESS, the driver's word, or CUDA_ERROR_NOT_READY where
 * the program did not ask, for lack of budget or of something to open. */
CUresult call_take(struct caller *caller, enum kind kind, struct held *ret_held);
void call_give(struct caller *caller, struct held *held);

/* worker_main() - in a program of its own, with the board at BOARD_FD. inside: of a pid namespace of its own,
 * where numbers of processes are not the first process's. */
int worker_main(int slot, bool inside);
/* worker_start() - a new process in this slot; -1 on failure. worker_forget() - after its end. */
pid_t worker_start(int slot);
void worker_forget(struct board *board, struct slot *slot);

/* fill() - pieces of 16 MiB until the driver refuses one. */
unsigned fill(CUdeviceptr *pieces, unsigned max);

#define BOARD_FD 200
#define LIFE_FD 201 /* the end of a pipe whose other end the first process has */
