package crashtest

import "testing"

// A rollback counts as detected when the run has repaired its account and says so; it may go unnoticed only when
// nothing was lost that a trainer had been told.
func TestRollbacksAddUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		r       rolledBack
		want    rollbacks
		missing bool
	}{
		{"repaired and shown", rolledBack{told: true, repairs: true, shown: true}, rollbacks{1, 1, 0}, false},
		{"repaired, though nothing was told", rolledBack{repairs: true, shown: true}, rollbacks{1, 1, 0}, false},
		{"nothing was told", rolledBack{}, rollbacks{1, 0, 1}, false},
		{"another node had it", rolledBack{told: true, kept: true}, rollbacks{1, 0, 1}, false},
		{"told, lost and not noticed", rolledBack{told: true}, rollbacks{1, 0, 0}, true},
		{"repaired in silence", rolledBack{told: true, repairs: true}, rollbacks{1, 0, 0}, true},
		{"repaired in silence, though nothing was told", rolledBack{repairs: true}, rollbacks{1, 0, 0}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got rollbacks
			got.add(tt.r)
			if got != tt.want || (tt.r.missing() != nil) != tt.missing || (got.violation() != "") != tt.missing {
				t.Errorf("%+v, missing %v, violation %q; want %+v", got, tt.r.missing(), got.violation(), tt.want)
			}
		})
	}
}
