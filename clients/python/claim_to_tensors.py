"""From a claim to padded arrays, by encoding: time and peak memory. URL serves step 0 of run demo.

BenchmarkClaimToTensors of internal/face/api starts it, beside a reference batch. Needs numpy and zstandard.
"""

import sys
import time
import tracemalloc

import numpy as np

import millrace


def claimed(compact: bool) -> millrace.Step:
    run = millrace.Client(sys.argv[1], compact=compact).run("demo", 1)
    run.spec = {"sampling": {"temperature": 1.0, "top_p": 1, "top_k": 0}}
    step = run.step(0)
    step._begin()
    return step


def main() -> None:
    took, arrays = {}, {}
    for compact in (False, True):
        times = []
        for _ in range(7):
            began = time.process_time()
            arrays[compact] = claimed(compact).arrays()
            times.append(time.process_time() - began)
        tracemalloc.start()
        kept = claimed(compact).arrays()
        largest = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        size = sum(v.nbytes for v in kept.values() if isinstance(v, np.ndarray)) / 2**20
        took[compact] = min(times)
        print(
            "%-7s  %6.1f ms of processor time, best of 7  %6.1f MiB at most, of which the arrays %.1f"
            % ("compact" if compact else "JSON", 1e3 * took[compact], largest, size)
        )
    for name, value in arrays[False].items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(arrays[True][name], value, rtol=1e-6, err_msg=name)
    print("compact is %.1f times as fast, and the arrays are the same" % (took[False] / took[True]))


if __name__ == "__main__":
    main()
