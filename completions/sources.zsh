# What asks for names, for the completions of zsh; docs/options/generate.py puts the program's name into @f@.

@f@_names() {
	local -a names
	names=(${${(f)"$(${KUBECTL:-kubectl} get "$@" -o name --request-timeout=3s 2>/dev/null)"}#*/})
	compadd -a names
}

@f@_nodes() {
	@f@_names nodes
}

@f@_namespaces() {
	@f@_names namespaces
}

@f@_pods() {
	local -a namespace
	local given=${opt_args[-n]:-${opt_args[--namespace]}}
	[[ -z $given ]] || namespace=(--namespace=$given)
	@f@_names pods $namespace
}

@f@_contexts() {
	compadd -- ${(f)"$(${KUBECTL:-kubectl} config get-contexts -o name 2>/dev/null)"}
}

@f@_node_gpus() {
	compadd -- $(${KUBECTL:-kubectl} get node $line[1] --request-timeout=3s -o 'jsonpath={.metadata.annotations.ration\.dev/gpus}' \
		2>/dev/null | grep -o '"index":[0-9]*' | grep -o '[0-9]*$')
}

@f@_local_gpus() {
	compadd -- ${(f)"$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null)"}
}

@f@_tree_gpus() {
	compadd -- $(ration-sim status $line[1] 2>/dev/null | awk '/^[0-9]+ .*GPU-/ { print $1 }')
}
