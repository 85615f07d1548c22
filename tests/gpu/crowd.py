"""crowd.py COUNT PROGRAM...: so many of it at once; after a line one of them is killed; after another line one more starts.
crowd.py after PROGRAM... -- PROGRAM...: the first, until it has said a line; it is killed, then the second.
What they print is printed. All of them are processes of one run."""
import subprocess
import sys


def start(program):
    return subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def told(process):
    print(process.stdout.readline().strip() or '{"error": "it ended"}', flush=True)


def crowd(count, program):
    members = [start(program) for _ in range(count)]
    for member in members:
        told(member)
    sys.stdin.readline()
    members[0].kill()
    members[0].wait()
    print('{"killed": true}', flush=True)
    sys.stdin.readline()
    members.append(start(program))
    told(members[-1])
    sys.stdin.readline()
    for member in members:
        member.kill()


def after(words):
    cut = words.index("--")
    first = start(words[:cut])
    told(first)
    first.kill()
    first.wait()
    second = start(words[cut + 1:])
    told(second)
    sys.stdin.readline()
    second.kill()


if __name__ == "__main__":
    if sys.argv[1] == "after":
        after(sys.argv[2:])
    else:
        crowd(int(sys.argv[1]), sys.argv[2:])
