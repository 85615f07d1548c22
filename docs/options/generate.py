#!/usr/bin/python3
"""generate.py KIND TABLES NAME FILE...: what is made of the tables of options (dump.c), on standard output.

man:     NAME.scd of the page FILE, whose options and variables it completes: see docs/options/README.md
bash, fish, zsh: the completion of the program NAME; FILE has the functions that ask for names, of which it takes those that are
         needed
kubectl: FILE with what `kubectl inspect cgpu <TAB>` offers"""
import json
import re
import sys

HELP = {"name": "help", "letter": "h", "value": None, "default": None, "source": "nothing", "suggestions": None,
        "help": "print the usage and exit", "repeated": False, "choices": []}
VERSION = HELP | {"name": "version", "letter": None, "help": "print the version and exit"}


class Table:
    """The table of one command, or of a program."""

    def __init__(self, dumped):
        self.program, self.version, self.group = dumped["program"], dumped["version"], dumped["group"]
        self.own = [*dumped["options"], HELP, *([VERSION] if self.version else [])]
        self.passed_on, self.arguments = dumped["passedOn"], dumped["arguments"]
        self.options = self.own + self.passed_on
        self.commands, self.variables = dumped["commands"], dumped["variables"]
        self.ends_early = dumped["optionsEndEarly"]


def spellings(row):
    return [*([f"-{row['letter']}"] if row["letter"] else []), f"--{row['name']}"]


def words_of(row):
    """The words that a shell offers for the value."""
    return row["choices"] or (row["suggestions"] or "").split()


def sentences(row):
    """The help of a row, for a page."""
    text = re.sub("; default: ", ". Default: ", row["help"])
    text = text[0].upper() + text[1:]
    return text + (f". Default: {row['default']}" if row.get("default") else "")


# ---- man pages ----

def scdoc(text):
    """Letters that scdoc would read as a command are escaped; `code` becomes bold."""
    return re.sub(r"`([^`]*)`", r"*\1*", re.sub(r"([\\*_])", r"\\\1", text))


def man_entry(heading, text, details):
    return f"{heading}\n\t{scdoc(text)}.\n" + "".join(f"\t{line}\n" if line else "\n" for line in details)


def details_of(text):
    """{name: the lines below the entry "*--name*" or "*VARIABLE*"}"""
    found = {}
    for block in re.split(r"\n(?=\*)", "\n" + text.strip("\n")):
        heading, _, rest = block.strip("\n").partition("\n")
        if not heading:
            continue
        name = re.fullmatch(r"\*(?:--)?([\w-]+)\*", heading)
        if not name:
            sys.exit(f"generate.py: {heading!r} is no entry: an entry below a marker is *--NAME* or *VARIABLE*")
        found[name[1]] = [line.removeprefix("\t") for line in rest.split("\n")]
    return found


def take(details, name):
    return details.pop(name, [])


def man_options(table, details):
    out = []
    for row in table.arguments + table.own:
        if row["name"]:
            heading = ", ".join(f"*{spelling}*" for spelling in spellings(row))
            heading += f" {scdoc(row['value'])}" if row["value"] else ""
        else:
            heading = scdoc(row["value"])
        out.append(man_entry(heading, sentences(row), take(details, row["name"] or row["value"])))
    if table.passed_on:
        names = ", ".join(f"*{spelling}*" for row in table.passed_on for spelling in spellings(row))
        out.append(f"{table.group}: {names}.\n")
    return out


def man_variables(table, details):
    return [man_entry(f"*{scdoc(row['name'])}*", sentences(row), take(details, row["name"])) for row in table.variables]


def man(tables, name, path):
    text = open(path).read()

    def complete(marker):
        details = details_of(marker[3])
        made = (man_options if marker[1] == "options" else man_variables)(tables[marker[2]], details)
        if details:
            sys.exit(f"generate.py: {name}: the table of {marker[2]} has no {', '.join(details)}")
        return "\n".join(made) + "\n"
    # A marker, and the entries up to the next marker, heading or "@@".
    return re.sub(r"^@(options|variables) ([\w -]+)@\n((?:(?![#@]).*\n)*)(?:@@\n)?", complete, text, flags=re.M)


# ---- completions ----

def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def functions(text, path, f):
    """Those functions of the file that the text needs, and that these need."""
    blocks = {re.search(r"@f@_(\w+)", block)[1]: block.strip("\n").replace("@f@", f)
              for block in re.split(r"\n\n+(?=#|@f@|function)", open(path).read()) if "@f@_" in block}
    needed = set()
    while True:
        used = text + "".join(blocks[name] for name in needed)
        more = {name for name in blocks if name not in needed and re.search(rf"\b{f}_{name}\b", used)}
        if not more:
            return "\n\n".join(block for name, block in blocks.items() if name in needed)
        needed |= more


def commands_of(tables, program):
    """{command: its table}; "" for a program without commands."""
    if not tables[program].commands:
        return {"": tables[program]}
    return {command["name"]: tables[f"{program} {command['name']}"] for command in tables[program].commands
            if f"{program} {command['name']}" in tables}


def bash_offer(row, f):
    if words_of(row):
        return f"{f}_offer {quoted(' '.join(words_of(row)))}"
    return {"files": 'mapfile -t COMPREPLY < <(compgen -f -- "$cur")', "folders": 'mapfile -t COMPREPLY < <(compgen -d -- "$cur")',
            "nothing": ":", "program": f"{f}_program"}.get(row["source"], f"{f}_{row['source'].replace('-', '_')}")


def bash(tables, name, path):
    program = "kubectl inspect cgpu" if name == "kubectl-inspect-cgpu" else name
    f = "_" + name.replace("-", "_")
    commands = commands_of(tables, program)
    values, options, arguments, flags = [], [], [], []
    for command, table in commands.items():
        valued = [row for row in table.options if row["value"]]
        for row in valued:
            if bash_offer(row, f) == ":":
                continue
            pattern = " | ".join(f"{command},{spelling}" for spelling in spellings(row))
            values.append(f"\t{pattern}) {bash_offer(row, f)} ;;")
        if valued:
            flags.append(" | ".join(f"{command},{spelling}" for row in valued for spelling in spellings(row)))
        options.append(f"\t{command or chr(34) * 2}) {f}_offer {quoted(' '.join(s for row in table.options for s in spellings(row)))} ;;")
        for at, row in enumerate(table.arguments):
            arguments.append(f"\t{command},{'*' if row['repeated'] else at}) {bash_offer(row, f)} ;;")
    first = ""
    if tables[program].commands:
        words = " ".join(command["name"] for command in tables[program].commands)
        dashed = " ".join(spelling for row in tables[program].own for spelling in spellings(row))
        first = f"""	if [ "$COMP_CWORD" = 1 ]; then
		case $cur in
		-*) {f}_offer {quoted(dashed)} ;;
		*) {f}_offer {quoted(words)} ;;
		esac
		return
	fi
	command=${{COMP_WORDS[1]}}
	first=2
"""
    early = " | ".join(command for command, table in commands.items() if table.ends_early) or "-"
    text = f"""{f}_takes_value()
{{
	case $1,$2 in
{chr(10).join(chr(9) + pattern + ") ;;" for pattern in flags)}
	*) return 1 ;;
	esac
}}

{f}_offer_value()
{{
	case $command,$prev in
{chr(10).join(values)}
	*) ;; # any text
	esac
}}

{f}_offer_options()
{{
	case $command in
{chr(10).join(options)}
	esac
}}

{f}_offer_argument()
{{
	case $command,${{#arguments[@]}} in
{chr(10).join(arguments) or chr(9) + "-) ;;"}
	esac
}}

{f}()
{{
	local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} command="" namespace="" first=1 ended="" at i
	local -a arguments=()

	COMPREPLY=()
{first}	# bash makes three words of --name=value.
	case $cur,$prev in
	=,*) cur="" ;;
	*,=) prev=${{COMP_WORDS[COMP_CWORD - 2]}} ;;
	esac
	for ((i = first; i < COMP_CWORD; i++)); do
		if [ -z "$ended" ] && {f}_takes_value "$command" "${{COMP_WORDS[i]}}"; then
			at=$i
			((i++))
			[ "${{COMP_WORDS[i]}}" != = ] || ((i++))
			case ${{COMP_WORDS[at]}} in
			-n | --namespace) namespace=${{COMP_WORDS[i]}} ;;
			esac
		elif [ -z "$ended" ] && [ "${{COMP_WORDS[i]}}" = -- ]; then
			ended=$((i + 1))
		elif [ -n "$ended" ] || [[ ${{COMP_WORDS[i]}} != -* ]]; then
			arguments+=("${{COMP_WORDS[i]}}")
			case $command in
			{early}) [ -n "$ended" ] || ended=$i ;;
			esac
		fi
	done
	if [ -z "$ended" ] && {f}_takes_value "$command" "$prev"; then
		{f}_offer_value
	elif [ -z "$ended" ] && [[ $cur == -* ]]; then
		{f}_offer_options
	else
		{f}_offer_argument
	fi
}}
complete -F {f} {name}
"""
    return f"# bash completion for {name}, made from its table of options\n\n{functions(text, path, f)}\n\n{text}"


def zsh_text(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def zsh_action(row, f):
    if words_of(row):
        return f"({' '.join(words_of(row))})"
    return {"files": "_files", "folders": "_files -/", "nothing": " "}.get(row["source"], f"{f}_{row['source'].replace('-', '_')}")


def zsh_spec(row, f):
    names = spellings(row)
    value = f":{zsh_text(row['value'])}:{zsh_action(row, f)}" if row["value"] else ""
    forms = [name + ("=" if name.startswith("--") else "+") if row["value"] else name for name in names]
    before = "*" if row["repeated"] else f"({' '.join(names)})" if len(names) > 1 else ""
    if row["name"] in ("help", "version"):
        before = "(- *)"
    after = f"[{zsh_text(row['help'])}]{value}"
    return f"'{before}'{{{','.join(forms)}}}'{after}'" if len(forms) > 1 else f"'{before}{forms[0]}{after}'"


def zsh_arguments(table, f):
    specs = [zsh_spec(row, f) for row in table.options]
    for at, row in enumerate(table.arguments):
        if row["source"] == "program":
            specs += [f"'(-){at + 1}:program: _command_names -e'", "'*::argument: _normal'"]
        else:
            specs.append(f"'{'*' if row['repeated'] else at + 1}:{zsh_text(row['value'])}:{zsh_action(row, f)}'")
    return f"_arguments {'-S ' if table.ends_early else ''}" + " \\\n\t\t\t".join(specs)


def zsh(tables, name, path):
    program = "kubectl inspect cgpu" if name == "kubectl-inspect-cgpu" else name
    f = "_" + name.replace("-", "_")
    commands = commands_of(tables, program)
    if tables[program].commands:
        described = " \\\n\t\t".join(quoted(f"{command['name']}:{command['help']}") for command in tables[program].commands)
        cases = "\n".join(f"\t{command})\n\t\t{zsh_arguments(table, f)}\n\t\t;;" for command, table in commands.items())
        body = f"""	local -a verbs
	verbs=({described})
	_arguments -C {" ".join(zsh_spec(row, f) for row in tables[program].own)} '1: :->command' '*:: :->arguments' && return
	if [[ $state = command ]]; then
		_describe command verbs
		return
	fi
	case $words[1] in
{cases}
	esac"""
    else:
        body = "\t" + zsh_arguments(commands[""], f)
    text = f"""{f}() {{
	local curcontext=$curcontext state line
	typeset -A opt_args

{body}
}}

{f} "$@"
"""
    return f"#compdef {name}\n# Made from the table of options.\n\n{functions(text, path, f)}\n\n{text}"


def fish_offer(row, f):
    if words_of(row):
        return f"-x -a {quoted(' '.join(words_of(row)))}"
    return {"files": "-r -F", "folders": "-x -a '(__fish_complete_directories)'", "nothing": "-x"}.get(
        row["source"], f"-x -a '({f}_{row['source'].replace('-', '_')})'")


def fish(tables, name, path):
    program = "kubectl inspect cgpu" if name == "kubectl-inspect-cgpu" else name
    f = "__" + name.replace("-", "_")
    commands = commands_of(tables, program)
    lines, valued = [f"complete -c {name} -f"], []
    if tables[program].commands:
        for row in tables[program].own:
            letter = f" -s {row['letter']}" if row["letter"] else ""
            lines.append(f"complete -c {name} -n '{f}_is \"\"'{letter} -l {row['name']} -d {quoted(row['help'])}")
        for command in tables[program].commands:
            lines.append(f"complete -c {name} -n '{f}_is \"\"' -a {command['name']} -d {quoted(command['help'])}")
    for command, table in commands.items():
        condition = f"-n '{f}_is {command}' " if command else ""
        patterns = [quoted(f"{command} {spelling}") for row in table.options if row["value"] for spelling in spellings(row)]
        if patterns:
            valued.append(f"        case {' '.join(patterns)}\n            return 0")
        for row in table.options:
            letter = f"-s {row['letter']} " if row["letter"] else ""
            offer = f" {fish_offer(row, f)}" if row["value"] else ""
            lines.append(f"complete -c {name} {condition}{letter}-l {row['name']}{offer} -d {quoted(row['help'])}")
        for at, row in enumerate(table.arguments):
            test = f"{f}_is {command or quoted('')}" if row["repeated"] and not at else f"{f}_at {at} {command}".strip()
            if row["source"] == "files":
                lines.append(f"complete -c {name} -n \"{test}\" -F")
            elif words_of(row) or row["source"] != "nothing":
                lines.append(f"complete -c {name} -n \"{test}\" {fish_offer(row, f).removeprefix('-x ')}")
    typed = "    set -l words (commandline -opc)\n    echo $words[2]\n" if tables[program].commands else ""
    skip = "    set -e words[1]\n" if tables[program].commands else ""
    text = "\n".join(lines) + "\n"
    engine = f"""# The command that was typed; nothing for a program without commands.
function {f}_command
{typed}end

function {f}_is
    test "$({f}_command)" = "$argv[1]"
end

function {f}_takes_value
    switch "$argv"
{chr(10).join(valued)}
    end
    return 1
end

# The arguments so far, without options, their values and the command.
function {f}_arguments
    set -l words (commandline -opc)
    set -l command ({f}_command)
    set -e words[1]
{skip}    while count $words >/dev/null
        if {f}_takes_value "$command $words[1]"
            set -e words[1]
        else if not string match -q -- '-*' $words[1]
            echo $words[1]
        end
        set -e words[1]
    end
end

function {f}_at
    test "$({f}_command)" = "$argv[2]"; and test (count ({f}_arguments)) = $argv[1]
end
"""
    return f"# fish completion for {name}, made from its table of options\n\n{functions(text, path, f)}\n\n{engine}\n{text}"


def kubectl(tables, _, path):
    table = tables["kubectl inspect cgpu"]
    choices = "\n".join(f"{' | '.join(spellings(row))})\n\tprintf '%s\\n' {' '.join(row['choices'])}\n\t;;"
                        for row in table.options if row["choices"])
    options = " ".join(spelling for row in table.options for spelling in spellings(row))
    return open(path).read().replace("@choices@\n", choices + "\n").replace("@options@", options)


def main():
    kind, path, name, *files = sys.argv[1:]
    with open(path) as file:
        tables = {dumped["program"]: Table(dumped) for dumped in json.load(file)}
    sys.stdout.write({"man": man, "bash": bash, "zsh": zsh, "fish": fish, "kubectl": kubectl}[kind](tables, name, *files))


main()
