package config

import (
	"os"
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
	for _, key := range serviceTable.Keys {
		section, name, within := strings.Cut(key.Path, ".")
		if live := leftOut[section]; key.Live && !live && !(within && leftOut[name]) {
			t.Errorf("%s is taken up by running processes, and a change of it replaces pods", key.Path)
		} else if live && !key.Live && !within && section != "limits" && section != "auth" {
			t.Errorf("%s wants a restart, and a change of it replaces no pods", key.Path)
		}
	}
	for _, key := range serviceTable.Keys {
		if strings.HasPrefix(key.Path, "limits.") && !key.Live {
			t.Errorf("%s wants a restart, and the chart takes all limits as taken up", key.Path)
		}
	}
}
