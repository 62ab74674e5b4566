package workload

import (
	"embed"
	"strings"
)

//go:embed traces/*.csv traces/*.gz
var traces embed.FS

// TraceNames lists the traces that come with the program; traces/README.md says where they are from.
func TraceNames() []string {
	entries, err := traces.ReadDir("traces")
	if err != nil {
		panic(err) // Embedded.
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i], _, _ = strings.Cut(e.Name(), ".")
	}
	return names
}

// KnownTrace is a trace that comes with the program; false: none of that name does.
func KnownTrace(name string) (Trace, bool) {
	for _, suffix := range []string{".csv", ".csv.gz"} {
		data, err := traces.ReadFile("traces/" + name + suffix)
		if err != nil {
			continue
		}
		t, err := ReadTrace(name+suffix, data, Lengths)
		if err != nil {
			panic(err) // A test reads every one.
		}
		t.Name = name
		return t, true
	}
	return Trace{}, false
}
