package rollout

import "testing"

func TestOrderOfPlayers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		seats []Seat
		want  Order
	}{
		{"won", []Seat{{"O", "random", 0}, {"X", "v12", 1}}, "v12@X > random@O"},
		{"drawn", []Seat{{"X", "v12", .5}, {"O", "policy:frozen", .5}}, "policy:frozen@O = v12@X"},
		{"several", []Seat{{"ITALY", "dumb", 3}, {"FRANCE", "v0", 7}, {"TURKEY", "dumb", 3}, {"RUSSIA", "v8", 1}},
			"v0@FRANCE > dumb@ITALY = dumb@TURKEY > v8@RUSSIA"},
		{"one player", []Seat{{"X", "v12", 1}, {"O", "v12", 0}}, ""},
		{"nobody", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := OrderOf(tt.seats)
			if got != tt.want || OrderOf(got.Seats()) != got {
				t.Errorf("%q, read again %q; want %q", got, OrderOf(got.Seats()), tt.want)
			}
		})
	}
}
