package enginediscovery

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
)

// FuzzEngineList: every engine of a list that is taken can be a member, and one reading of the list brings in all
// of it.
func FuzzEngineList(f *testing.F) {
	for _, list := range []string{
		"http://10.0.0.5:8000\nhttp://10.0.0.6:8000 max_in_flight=64 id=gpu7\n",
		"# all of rack 3\r\n\r\nhttps://Host/pool/v1  id=a # the fast one\r\n",
		"http://[::1]:8000\nhttp://[fe80::1%25eth0]:8000 max_in_flight=0",
		"http://a:1 max_in_flight=-1", "http://a:1 weight=3", "10.0.0.5:8000", "http://a:1 id=", "http://a:1\nhttp://a:1/v1/\n",
		strings.Repeat("x", 70_000),
	} {
		f.Add([]byte(list))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		listed, err := parseList(data)
		if err != nil {
			return
		}
		var members []fleet.Member
		for _, e := range listed {
			m, err := fleet.NewMember(e, time.Time{})
			if err != nil {
				t.Fatalf("%q lists %+v: %v", data, e, err)
			}
			if _, err := fleet.NewMember(rollout.Engine{ID: m.ID, URL: "http://a:1"}, time.Time{}); err != nil || m.MaxInFlight < 1 {
				t.Errorf("%q makes %+v: %v", data, m, err)
			}
			m.Source = "file:/engines"
			members = append(members, m)
		}
		if join, leave := Difference(members, listed, "file:/engines"); len(join)+len(leave) > 0 {
			t.Errorf("%q, read again: join %v, leave %v", data, join, leave)
		}
	})
}
