"""Calls of test_shim_passed_on.py: hooks that no program of these tests calls for what they do."""

# Arguments of 32 bits: n; of 64: w; the thread's stream, which is 0: s. Others are names of the script's variables.
WITH_PTSZ = {
    "cuLaunchCooperativeKernel": "function n n n n n n n s words",
    "cuMemBatchDecompressAsync": "decompress one n words s",
    "cuMemPrefetchAsync": "w w device s",
    "cuMemPrefetchAsync_v2": "w w location n s",
    "cuMemPrefetchBatchAsync": "words words one locations words one w s",
    "cuMemcpy3DBatchAsync": "one boxes words w s",
    "cuMemcpy3DBatchAsync_v2": "one boxes w s",
    "cuMemcpyBatchAsync": "words words words two words words one words s",
    "cuMemcpyBatchAsync_v2": "words words words two words words one s",
    "cuMemcpyWithAttributesAsync": "w w w words s",
    "cuMemcpy3DWithAttributesAsync": "boxes w s",
    "cuFabricCpyBatchAsync": "one boxes w s",
    "cuStreamBeginCapture": "s",
    "cuStreamBeginCapture_v2": "s n",
    "cuStreamBeginCaptureToGraph": "s w w w w n",
    "cuStreamEndCapture": "s words",
    "cuStreamBeginRecaptureToGraph": "s n w w w",
    "cuStreamBeginCaptureToCig": "s words",
    "cuStreamEndCaptureToCig": "s",
}
CALLS = WITH_PTSZ | {name + "_ptsz": arguments for name, arguments in WITH_PTSZ.items()} | {
    "cuLaunch": "function",
    "cuLaunchGrid": "function n n",
    "cuLaunchGridAsync": "function n n s",
    "cuLaunchCooperativeKernelMultiDevice": "launches count n",
    "cuGraphAddNode_v3": "words w words words one words",
    "cuGraphExecUpdate": "w w words words",
    "cuGraphExecKernelNodeSetParams": "w w words",
    "cuGraphExecMemcpyNodeSetParams": "w w words w",
    "cuGraphExecMemsetNodeSetParams": "w w words w",
    "cuGraphExecChildGraphNodeSetParams": "w w w",
    "cuGraphExecNodeSetParams": "w w words",
}
