// dra-allocator replays arrivals of pods through kube-scheduler's own allocator of Dynamic Resource Allocation
// (k8s.io/dynamic-resource-allocation/structured). bench/rationbench/dra.py gives it nodes, kinds of pods and orders of
// arrivals as JSON on stdin, and reads one line of JSON for each order and device order. docs/measurements/claims.md
// says what the model of kube-scheduler leaves out.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

const (
	driver   = "gpu.ration.dev"
	gpuMilli = 1000
	milliMiB = 16 // a thousandth of a GPU, as bench/packing counts it
	usage    = "usage: dra-allocator < input.json"
)

type input struct {
	Nodes   [][4]int64 `json:"nodes"` // CPU in milli, memory in MiB, GPUs, number of the model
	Kinds   [][5]int64 `json:"kinds"` // CPU, memory, GPUs, milli of each, models (a bit each; 0: all)
	Orders  []order    `json:"orders"`
	Devices []devices  `json:"devices"`
	Percent int        `json:"percent"` // arrivals end there
}

type order struct {
	Seed     int64 `json:"seed"`
	Arrivals []int `json:"arrivals"`
}

// devices says in which order a node's slice lists its GPUs: "index", "fullest" or "emptiest". Every is the number of
// arrivals after which the slices are written again.
type devices struct {
	Name  string `json:"name"`
	Order string `json:"order"`
	Every int    `json:"every"`
}

type output struct {
	Policy    string    `json:"policy"`
	Seed      int64     `json:"seed"`
	Pods      int       `json:"pods"`
	Dropped   int       `json:"dropped"`
	Us        float64   `json:"us"`
	Allocated []float64 `json:"allocated"`
	Writes    int       `json:"writes"` // of slices whose order had changed
}

type node struct {
	cpu, memory, cpuLeft, memoryLeft int64
	gpus                             []int64 // milli left, by index
	model                            int64
	object                           *corev1.Node
	slice                            *resourceapi.ResourceSlice
	devices                          []resourceapi.Device // by index
	consumed                         structured.ConsumedCapacityCollection
	full                             map[int]bool // kinds that did not fit since the last time that something changed
	touched                          bool         // GPUs have changed since the slice was written
}

type lister struct{ class *resourceapi.DeviceClass }

func (l lister) List() ([]*resourceapi.DeviceClass, error) {
	return []*resourceapi.DeviceClass{l.class}, nil
}

func (l lister) Get(name string) (*resourceapi.DeviceClass, error) {
	if name != l.class.Name {
		return nil, fmt.Errorf("no class %q", name)
	}
	return l.class, nil
}

type world struct {
	in       *input
	nodes    []*node
	classes  lister
	cache    *cel.Cache
	features structured.Features
	devices  devices
	writes   int
}

func mib(n int64) resource.Quantity { return *resource.NewQuantity(n<<20, resource.BinarySI) }

// device is what the agent publishes of a GPU (src/agent/dra/slice.c), as far as the allocator reads it.
func device(index int) resourceapi.Device {
	step, all := mib(milliMiB), mib(gpuMilli*milliMiB)
	return resourceapi.Device{
		Name:                     fmt.Sprintf("gpu-%02d", index),
		AllowMultipleAllocations: ptr.To(true),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"uuid": {StringValue: ptr.To(fmt.Sprintf("GPU-%02d", index))},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: all, RequestPolicy: &resourceapi.CapacityRequestPolicy{
				Default: &all, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &step, Step: &step}}},
		},
	}
}

func newNode(number int, of [4]int64) *node {
	n := &node{cpu: of[0], memory: of[1], cpuLeft: of[0], memoryLeft: of[1], model: of[3],
		consumed: structured.NewConsumedCapacityCollection(), full: map[int]bool{}}
	name := fmt.Sprintf("node-%05d", number)
	n.object = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := range int(of[2]) {
		n.gpus = append(n.gpus, gpuMilli)
		n.devices = append(n.devices, device(i))
	}
	n.slice = &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + "-" + name},
		Spec: resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &name,
			Pool:    resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
			Devices: slices.Clone(n.devices)}}
	return n
}

func newWorld(in *input, d devices) *world {
	w := &world{in: in, devices: d, cache: cel.NewCache(10, cel.Features{EnableConsumableCapacity: true}),
		// On by default in 1.36, as far as claims like these use them.
		features: structured.Features{ConsumableCapacity: true, DeviceTaints: true, PrioritizedList: true}}
	w.classes.class = &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: "device.driver == '" + driver + "'"}}}}}
	for i, of := range in.Nodes {
		w.nodes = append(w.nodes, newNode(i, of))
	}
	return w
}

// publish writes the slices whose GPUs are in another order now.
func (w *world) publish() {
	for _, n := range w.nodes {
		if !n.touched || w.devices.Order == "index" {
			continue
		}
		n.touched = false
		by := make([]int, len(n.gpus))
		for i := range by {
			by[i] = i
		}
		slices.SortStableFunc(by, func(a, b int) int {
			if w.devices.Order == "fullest" {
				return cmp.Compare(n.gpus[a], n.gpus[b])
			}
			return cmp.Compare(n.gpus[b], n.gpus[a])
		})
		changed := false
		for at, i := range by {
			changed = changed || n.slice.Spec.Devices[at].Name != n.devices[i].Name
			n.slice.Spec.Devices[at] = n.devices[i]
		}
		if changed {
			w.writes++
		}
	}
}

func claimOf(kind [5]int64) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", Namespace: "default", UID: "claim"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: driver,
				AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: kind[2],
				Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
					"memory": mib(kind[3] * milliMiB)}}}}}}}}
}

func (n *node) hasHostRoom(kind [5]int64) bool {
	return kind[0] <= n.cpuLeft && kind[1] <= n.memoryLeft && (kind[4] == 0 || kind[4]>>n.model&1 == 1)
}

// score is that of NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation with equal weights, the defaults.
func (n *node) score(kind [5]int64) int {
	cpu := float64(n.cpuLeft-kind[0]) / float64(n.cpu)
	memory := float64(n.memoryLeft-kind[1]) / float64(n.memory)
	return int((cpu+memory)/2*100) + int((1-max(cpu-memory, memory-cpu)/2)*100)
}

// allocate asks kube-scheduler's allocator, and takes what it answers.
func (w *world) allocate(n *node, kind [5]int64) (bool, error) {
	state := structured.AllocatedState{AggregatedCapacity: n.consumed}
	// kube-scheduler gives it the slices of all nodes; it looks at those of this node only.
	allocator, err := structured.NewAllocator(context.Background(), w.features, state, w.classes,
		[]*resourceapi.ResourceSlice{n.slice}, w.cache)
	if err != nil {
		return false, err
	}
	results, err := allocator.Allocate(context.Background(), n.object, []*resourceapi.ResourceClaim{claimOf(kind)})
	if err != nil || results == nil {
		return false, err
	}
	for _, r := range results[0].Devices.Results {
		var index int
		if _, err := fmt.Sscanf(r.Device, "gpu-%d", &index); err != nil {
			return false, err
		}
		memory := r.ConsumedCapacity["memory"]
		if r.ShareID == nil || memory.Value() != kind[3]*milliMiB<<20 || n.gpus[index] < kind[3] {
			return false, fmt.Errorf("the allocator gave %v of a GPU that has %d left", r, n.gpus[index])
		}
		n.gpus[index] -= kind[3]
		n.consumed.Insert(structured.NewDeviceConsumedCapacity(
			structured.MakeDeviceID(driver, r.Pool, r.Device), r.ConsumedCapacity))
	}
	return true, nil
}

// place tries the nodes from the best score on: the first on which the claim can be allocated is the one that
// kube-scheduler, which first filters and then scores, would take.
func (w *world) place(number int) (bool, error) {
	kind := w.in.Kinds[number]
	type candidate struct{ score, at int }
	var candidates []candidate
	for i, n := range w.nodes {
		// No pod ends here, so what did not fit on a node will never fit there.
		if n.hasHostRoom(kind) && !n.full[number] && int64(len(n.gpus)) >= kind[2] {
			candidates = append(candidates, candidate{n.score(kind), i})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	for _, c := range candidates {
		n := w.nodes[c.at]
		if kind[2] > 0 {
			fits, err := w.allocate(n, kind)
			if err != nil {
				return false, err
			}
			if !fits {
				n.full[number] = true
				continue
			}
			n.touched = true
		}
		n.cpuLeft -= kind[0]
		n.memoryLeft -= kind[1]
		return true, nil
	}
	return false, nil
}

func replay(in *input, of order, d devices) (output, error) {
	w := newWorld(in, d)
	out := output{Policy: d.Name, Seed: of.Seed, Pods: len(of.Arrivals)}
	var gpus, arrived, placed int64
	for _, n := range w.nodes {
		gpus += int64(len(n.gpus)) * gpuMilli
	}
	start := time.Now()
	for i, number := range of.Arrivals {
		kind := in.Kinds[number]
		if d.Every > 0 && i%d.Every == 0 {
			w.publish()
		}
		fits, err := w.place(number)
		if err != nil {
			return out, err
		}
		arrived += kind[2] * kind[3]
		for len(out.Allocated) < in.Percent-1 && arrived*100 > gpus*int64(len(out.Allocated)+1) {
			out.Allocated = append(out.Allocated, 100*float64(placed)/float64(gpus))
		}
		if fits {
			placed += kind[2] * kind[3]
		} else {
			out.Dropped++
		}
	}
	for len(out.Allocated) < in.Percent {
		out.Allocated = append(out.Allocated, 100*float64(placed)/float64(gpus))
	}
	out.Us = float64(time.Since(start).Microseconds()) / float64(max(len(of.Arrivals), 1))
	out.Writes = w.writes
	return out, nil
}

func run() error {
	var in input
	if len(os.Args) > 1 {
		return errors.New(usage)
	}
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for _, of := range in.Orders {
		for _, d := range in.Devices {
			result, err := replay(&in, of, d)
			if err != nil {
				return err
			}
			if err := out.Encode(result); err != nil {
				return err
			}
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "dra-allocator:", err)
		os.Exit(1)
	}
}
