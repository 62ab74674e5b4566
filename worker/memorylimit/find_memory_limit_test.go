package memorylimit

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestFind(t *testing.T) {
	t.Parallel()
	const machine = "MemTotal:       8388608 kB\nMemFree:         100000 kB\nMemAvailable:   4194304 kB\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		goMax int64
		want  Limit
		known bool
	}{
		{"a machine of its own", map[string]string{"proc/self/cgroup": "0::/user.slice\n",
			"sys/fs/cgroup/user.slice/memory.max": "max\n"}, math.MaxInt64,
			Limit{4 << 30, "the memory that the machine has available", true}, true},
		{"a container, version 2", map[string]string{"proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "2147483648\n"}, math.MaxInt64,
			Limit{2 << 30, "the limit of its control group", false}, true},
		{"a group above has less", map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "1073741824\n", "sys/fs/cgroup/a/b/memory.max": "2147483648\n"}, math.MaxInt64,
			Limit{1 << 30, "the limit of its control group", false}, true},
		{"version 1", map[string]string{"proc/self/cgroup": "5:cpu:/x\n4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n"}, math.MaxInt64,
			Limit{1 << 30, "the limit of its control group", false}, true},
		{"version 1 without a limit", map[string]string{"proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, math.MaxInt64,
			Limit{4 << 30, "the memory that the machine has available", true}, true},
		{"the Go runtime has less", map[string]string{"proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "2147483648\n"}, 1 << 30, Limit{1 << 30, "GOMEMLIMIT", false}, true},
		{"another system", nil, math.MaxInt64, Limit{From: "the memory that the machine has available", Shared: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := fstest.MapFS{}
			for name, text := range tt.files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if tt.known {
				files["proc/meminfo"] = &fstest.MapFile{Data: []byte(machine)}
			}
			if got, known := Find(files, tt.goMax); got != tt.want || known != tt.known {
				t.Errorf("got %+v, %v, want %+v, %v", got, known, tt.want, tt.known)
			}
		})
	}
}
