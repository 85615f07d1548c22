# What asks for names, for the completions of fish; docs/options/generate.py puts the program's name into @f@.

function @f@_kubectl
    set -l kubectl kubectl
    set -q KUBECTL; and set kubectl $KUBECTL
    $kubectl $argv 2>/dev/null
end

function @f@_names
    @f@_kubectl get $argv -o name --request-timeout=3s | string replace -r '^[^/]*/' ''
end

function @f@_nodes
    @f@_names nodes
end

function @f@_namespaces
    @f@_names namespaces
end

function @f@_pods
    set -l words (commandline -opc)
    set -l namespace
    for i in (seq 2 (count $words))
        switch $words[$i]
            case -n --namespace
                test $i -lt (count $words); and set namespace --namespace=$words[(math $i + 1)]
            case '--namespace=*'
                set namespace $words[$i]
        end
    end
    @f@_names pods $namespace
end

function @f@_contexts
    @f@_kubectl config get-contexts -o name
end

function @f@_node_gpus
    @f@_kubectl get node (@f@_arguments)[1] --request-timeout=3s -o 'jsonpath={.metadata.annotations.ration\.dev/gpus}' |
        string match -ar '"index":[0-9]+' | string replace '"index":' ''
end

function @f@_local_gpus
    nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null
end

function @f@_tree_gpus
    ration-sim status (@f@_arguments)[1] 2>/dev/null | string match -r '^[0-9]+(?= .*GPU-)'
end

# The program, or what its own completion offers.
function @f@_program
    set -l words (commandline -opc)
    set -l command (@f@_command)
    set -e words[1..2]
    while count $words >/dev/null; and string match -q -- '-*' $words[1]
        if test $words[1] = --
            set -e words[1]
            break
        end
        @f@_takes_value "$command $words[1]"; and set -e words[1]
        set -e words[1]
    end
    set -l line (string join " " -- (string escape -- $words) (commandline -ct))
    complete --do-complete="$line"
end
