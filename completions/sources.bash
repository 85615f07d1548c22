# What asks for names, for the completions of bash; docs/options/generate.py puts the program's name into @f@. `cur`, `namespace`,
# `arguments` and `ended` are variables of @f@().

@f@_offer()
{
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

@f@_names()
{
	@f@_offer "$("${KUBECTL:-kubectl}" get "$@" -o name --request-timeout=3s 2>/dev/null | sed 's,^[^/]*/,,')"
}

@f@_nodes()
{
	@f@_names nodes
}

@f@_namespaces()
{
	@f@_names namespaces
}

@f@_pods()
{
	@f@_names pods ${namespace:+"--namespace=$namespace"}
}

@f@_contexts()
{
	@f@_offer "$("${KUBECTL:-kubectl}" config get-contexts -o name 2>/dev/null)"
}

@f@_node_gpus()
{
	@f@_offer "$("${KUBECTL:-kubectl}" get node "${arguments[0]}" --request-timeout=3s \
		-o 'jsonpath={.metadata.annotations.ration\.dev/gpus}' 2>/dev/null | grep -o '"index":[0-9]*' | grep -o '[0-9]*$')"
}

@f@_local_gpus()
{
	@f@_offer "$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null)"
}

@f@_tree_gpus()
{
	@f@_offer "$(ration-sim status "${arguments[0]}" 2>/dev/null | awk '/^[0-9]+ .*GPU-/ { print $1 }')"
}

# A program, or what the completion of the program offers.
@f@_program()
{
	if [ "${#arguments[@]}" = 0 ]; then
		mapfile -t COMPREPLY < <(compgen -c -- "$cur")
	elif declare -F _command_offset >/dev/null; then
		_command_offset "$ended"
	fi
}
