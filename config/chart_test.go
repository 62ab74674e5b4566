package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestTheChartReplacesPodsForTheRestAlone: the chart leaves out of its checksum what running processes take up, and
// nothing else.
func TestTheChartReplacesPodsForTheRestAlone(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../deploy/helm/millrace/templates/_helpers.tpl")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), `define "millrace.restartChecksum"`)
	rest, _, _ = strings.Cut(rest, "{{- end }}\n\n")
	leftOut := map[string]bool{}
	for i, word := range strings.Split(rest, `"`) {
		if i%2 == 1 {
			leftOut[word] = true
		}
	}
	partly := []string{"auth", "scaling"} // sections of which the chart leaves out keys alone
	for _, key := range serviceTable.Keys {
		section, name, within := strings.Cut(key.Path, ".")
		name, _, _ = strings.Cut(name, ".")
		live := leftOut[section] && !slices.Contains(partly, section) || within && leftOut[name]
		if key.Live && !live {
			t.Errorf("%s is taken up by running processes, and a change of it replaces pods", key.Path)
		} else if live && !key.Live && !within && section != "limits" {
			t.Errorf("%s wants a restart, and a change of it replaces no pods", key.Path)
		}
	}
	for _, key := range serviceTable.Keys {
		section, name, _ := strings.Cut(key.Path, ".")
		if of := section == "limits" || section == "scaling" && leftOut[name]; of && name != "" && !key.Live &&
			name != "queue" && name != "starvation" {
			t.Errorf("%s wants a restart, and the chart takes it as taken up", key.Path)
		}
	}
}
