"""What the jobs of a chaos run do: every habit that could make the queue break a promise.

A job is a dict as a line of `add --from` takes it. Each attempt runs `job.sh` first, which holds a lock
of the job's own (descriptor 9) and in the lane with slots one of the slots' (descriptor 8) as long as
any process of the attempt lives, and writes to `log` that it started, and later how it ended.
"""

import json
import os

SLOTS = 2  # of the lane "narrow", for all its workers together
LANES = ("default", "default", "narrow", "side")

PRELUDE = """\
id=$SPOOLCTL_JOB_ID n=$SPOOLCTL_ATTEMPT
exec 9>>"locks/$id"
flock -n 9 || { echo "overlap $id $n" >>log; exit 0; }
echo "$id $n"
echo "start $id $n" >>log
if [ "$SPOOLCTL_QUEUE" = narrow ]; then
  slot=1
  until exec 8>>"slots/$slot"; flock -n 8; do
    slot=$((slot + 1))
    [ $slot -le SLOTS ] || { echo "crowded $id $n" >>log; break; }
  done
fi
over() { echo "end $id $n $1" >>log; exit "$1"; }
""".replace("SLOTS", str(SLOTS))

# Children that a command leaves behind.
LEFT = (
    "sleep 600 &",
    "setsid sleep 600 &",
    "( (sleep 600 &) & );",
    "setsid sh -c 'sleep 600 & exec sleep 600' >/dev/null 2>&1 &",
    "setsid sh -c '(setsid sleep 600 &) & exit 0' >/dev/null 2>&1 &",
    "setsid sleep 600 >/dev/null 2>&1 8>&- 9>&- &",
    "(trap '' TERM; exec sleep 600) &",
    "sh -c 'trap \"\" TERM; setsid sleep 600' &",
)
# And one with neither token nor lock. Of a command that ends at once nothing would show it when the worker
# died before it had written down whom it started: that is the stated limit.
BARE = "env -i sleep 600 >/dev/null 2>&1 8>&- 9>&- &"
# The worker is told its own number, so that nobody else is killed when it has died meanwhile.
KILL_WORKER = '[ "$PPID" != "$CHAOS_WORKER" ] || kill -9 "$PPID"'


def short(rng):
    """Seconds a job takes: most at once or some hundred milliseconds, a few longer."""
    kind = rng.random()
    if kind < 0.3:
        return "0"
    if kind < 0.94:
        return f"{rng.uniform(0.01, 0.3):.2f}"
    return f"{rng.uniform(0.8, 3):.2f}"


def quick(rng):
    return {}, f"sleep {short(rng)}; over 0"


def fails(rng):
    return {}, f"sleep {short(rng)}; over {rng.randint(1, 3)}"


def fails_first(rng):
    return {}, f"sleep {short(rng)}; [ $n -gt {rng.randint(1, 3)} ] || over 1; over 0"


def leaves(rng):
    children = " ".join(rng.sample(LEFT, rng.randint(1, 3)))
    return {}, f"{children} sleep {short(rng)}; over {rng.choice((0, 0, 0, 1))}"


def too_long(rng):
    return _timeout(rng), f"{rng.choice((*LEFT, BARE, BARE))} sleep 600; over 0"


def deaf(rng):
    return _timeout(rng), "trap '' TERM; sleep 600; while :; do sleep 0.05; done"


def deaf_for_a_moment(rng):
    return {}, f"trap '' TERM; {rng.choice(LEFT)} sleep {short(rng)}; over 0"


def obeys_late(rng):
    return _timeout(rng), "trap 'sleep 0.1; over 7' TERM; sleep 600 & wait; wait; over 0"


def stops_itself(rng):
    return _timeout(rng), "kill -STOP $$; over 0"


def kills_itself(rng):
    return {}, f"sleep {short(rng)}; kill -9 $$; sleep 600"


def kills_its_worker(rng):
    budget = {"max_crashes": rng.randint(0, 2)}
    return budget, f"{rng.choice((*LEFT, BARE, BARE))} sleep {short(rng)}; {KILL_WORKER}; sleep 600"


def kills_its_worker_once(rng):
    return {}, f"[ $n -gt 1 ] || {{ {KILL_WORKER}; sleep 600; }}; over 0"


def writes_too_much(rng):
    return {"max_output": 20000}, "yes | head -c 200000; sleep 600; over 0"


def keeps_a_child(rng):
    return {"keep_children": True}, f"sleep {rng.uniform(0.2, 1):.2f} 8>&- 9>&- & over 0"


def cannot_start(rng):
    return {"argv": ["./there-is-no-such-command"]}, None


HABITS = {
    quick: 36, fails: 6, fails_first: 8, leaves: 14, too_long: 4, deaf: 3, deaf_for_a_moment: 5,
    obeys_late: 2, stops_itself: 2, kills_itself: 3, kills_its_worker: 2, kills_its_worker_once: 2,
    writes_too_much: 2, keeps_a_child: 2, cannot_start: 2,
}  # fmt: skip


def _timeout(rng):
    return {"timeout": f"{rng.uniform(0.2, 0.8):.2f}", "max_retries": rng.randint(0, 1)}


def keyed(rng):
    """A job under one of a few keys; what it does hangs on its key alone."""
    number = rng.randrange(10)
    return {
        "key": f"k{number}",
        "key_scope": "kept" if number >= 8 else "active",
        "command": f". ./job.sh; sleep 0.{number}; over {number % 3 // 2}",
        "max_retries": 1,
        "backoff_base": "0.1",
        "queue": LANES[number % 4],
    }


def job(rng, number):
    """The job of this number, as a line of `add --from`."""
    if rng.random() < 0.06:
        return keyed(rng)
    habit = rng.choices(list(HABITS), list(HABITS.values()))[0]
    asked, script = habit(rng)
    made = {
        "note": f"n{number}",
        "queue": rng.choices(("default", "narrow", "side"), (60, 15, 25))[0],
        "max_retries": rng.randint(0, 3),
        "max_crashes": rng.choice((10, 10, 10, 2, 0)),
        "timeout": "60",
        "backoff_base": f"{rng.uniform(0.01, 0.2):.2f}",
        "backoff_max": "1",
        "backoff_jitter": rng.choice((0, 0.5)),
        **asked,
    }
    if script is not None:
        made["command"] = f". ./job.sh; {script}"
    if rng.random() < 0.3:
        made["priority"] = rng.choice((-5, 1, 9))
    if rng.random() < 0.15:
        made["after"] = f"{rng.uniform(0.1, 2):.2f}"
    if rng.random() < 0.3:
        made["tags"] = {"brief": "1"}  # may be pruned
    return made


def line(made):
    return json.dumps(made) + "\n"


def flags(made):
    """The same job as the words of one `add`."""
    made = dict(made)
    command, argv = made.pop("command", None), made.pop("argv", None)
    words = [f"--tag={key}={value}" for key, value in made.pop("tags", {}).items()]
    for name, value in made.items():
        flag = "--" + name.replace("_", "-")
        words.append(flag if value is True else f"{flag}={value}")
    return [*words, "-c", command] if argv is None else [*words, "--", *argv]


def prepare(folder):
    """Put into the folder what the jobs need."""
    for name in ("locks", "slots"):
        os.mkdir(f"{folder}/{name}")
    with open(f"{folder}/job.sh", "w") as file:
        file.write(PRELUDE)
