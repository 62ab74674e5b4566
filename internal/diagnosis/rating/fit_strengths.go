// Package rating tells how strong players are by the games that they played against each other: Bradley and Terry's
// model for two, Plackett and Luce's for the order in which several ended, with effects of the places at the table.
//
// Ratings are in points as in chess: a player with 400 points more comes before another ten times as often as after it.
// One player, the anchor, has 0. An interval follows from the curvature of the likelihood (the observed information);
// it takes games as independent, and so is too narrow where many games had the same start. A tie counts as all orders
// of those who tied, each as likely as the others: between two players it is half a win each.
// Start reading at Of.
package rating

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"

	"github.com/millrace/millrace/internal/rollout"
)

// Game is so many games with the same seats and scores.
type Game struct {
	Seats []rollout.Seat `json:"seats"`
	Times int            `json:"times"`
}

// MostSeats bounds the seats of a game: a tie of n costs 2^n.
const MostSeats = 10

// Rating is how strong a player is, or how much a place is worth.
type Rating struct {
	Name   string  `json:"name"`
	Points float64 `json:"points"`
	Half   float64 `json:"half"` // of the 95 % interval; 0 of the anchor
	Games  int     `json:"games"`
}

// Table is the ratings of all players, and of the places where somebody has played at more than one; best first.
// Places are compared with their mean. As long as nobody changes places, what a place is worth is part of the strength
// of who plays there.
type Table struct {
	Anchor  string   `json:"anchor"`
	Players []Rating `json:"players"`
	Places  []Rating `json:"places,omitempty"`
}

// The weak prior keeps the rating of a player who never lost, or who is not connected to the anchor by any games,
// finite: strengths are normal around the anchor's, and effects of places around 0, with these deviations in points.
const (
	priorOfPlayers = 2000
	priorOfPlaces  = 100
)

// pointsPerNat converts the model's logarithms of odds.
const pointsPerNat = 400 / math.Ln10

// Of rates all players of the games.
func Of(games []Game, anchor string) (Table, error) {
	return of(games, anchor, priorOfPlayers/pointsPerNat, priorOfPlaces/pointsPerNat)
}

func of(games []Game, anchor string, ofPlayers, ofPlaces float64) (Table, error) {
	m, err := newModel(games, anchor)
	if err != nil {
		return Table{}, err
	}
	m.precision = make([]float64, len(m.names))
	for i := range m.precision {
		m.precision[i] = 1 / (ofPlayers * ofPlayers)
		if i >= m.players {
			m.precision[i] = 1 / (ofPlaces * ofPlaces)
		}
	}
	t := Table{Anchor: anchor, Players: []Rating{{Name: anchor, Games: m.games[anchor]}}}
	if len(m.names) == 0 {
		return t, nil
	}
	at, err := optimize.Minimize(optimize.Problem{
		Func: func(x []float64) float64 { return m.loss(x, nil, nil) },
		Grad: func(grad, x []float64) { m.loss(x, grad, nil) },
		Hess: func(hess *mat.SymDense, x []float64) { m.loss(x, nil, hess) },
	}, make([]float64, len(m.names)), &optimize.Settings{GradientThreshold: 1e-9}, &optimize.Newton{})
	if err != nil && at == nil {
		return Table{}, fmt.Errorf("rate players: %w", err)
	} // else the last bits of the loss cannot be improved
	information := mat.NewSymDense(len(m.names), nil)
	m.loss(at.X, nil, information)
	var (
		factors    mat.Cholesky
		covariance mat.SymDense
	)
	if !factors.Factorize(information) {
		return Table{}, fmt.Errorf("rate players: the information of %d ratings is singular", len(m.names))
	}
	if err := factors.InverseTo(&covariance); err != nil {
		return Table{}, fmt.Errorf("rate players: %w", err)
	}
	for i, name := range m.names {
		const normal95 = 1.959964
		r := Rating{Name: name, Points: at.X[i] * pointsPerNat,
			Half: normal95 * math.Sqrt(covariance.At(i, i)) * pointsPerNat}
		if i < m.players {
			r.Games = m.games[name]
			t.Players = append(t.Players, r)
		} else {
			r.Games = m.places[name]
			t.Places = append(t.Places, r)
		}
	}
	best := func(a, b Rating) int { return cmp.Or(cmp.Compare(b.Points, a.Points), cmp.Compare(a.Name, b.Name)) }
	slices.SortFunc(t.Players, best)
	slices.SortFunc(t.Places, best)
	return t, nil
}

// model is the games with numbers for names: first the players but the anchor, then the places.
type model struct {
	names         []string
	players       int
	precision     []float64 // of the prior
	seatings      []seating
	games, places map[string]int
}

// seating is games as the model reads them: the parts of each seat's strength, the best seat first, and where the seats
// begin that are tied with none before.
type seating struct {
	parts [][]int
	ties  []int
	times float64
}

func newModel(games []Game, anchor string) (*model, error) {
	m := &model{games: map[string]int{}, places: map[string]int{}}
	at, changed := map[string]string{}, false
	for _, g := range games {
		if len(g.Seats) > MostSeats {
			return nil, fmt.Errorf("rate players: a game has %d seats, more than %d", len(g.Seats), MostSeats)
		}
		once := map[string]bool{}
		for _, s := range g.Seats {
			if math.IsNaN(s.Score) {
				return nil, fmt.Errorf("rate players: the score of %s is no number", s.Player)
			}
			if !once[s.Player] {
				m.games[s.Player] += g.Times
			}
			once[s.Player] = true
			m.places[s.Place] += g.Times
			place, sat := at[s.Player]
			changed = changed || sat && place != s.Place
			at[s.Player] = s.Place
		}
	}
	if m.games[anchor] == 0 {
		return nil, fmt.Errorf("rate players: %q, which is to have 0 points, played none of the games", anchor)
	}
	player, place := map[string]int{}, map[string]int{}
	number := func(numbers, counts map[string]int) {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			numbers[name] = len(m.names)
			m.names = append(m.names, name)
		}
	}
	others := maps.Clone(m.games)
	delete(others, anchor)
	number(player, others)
	if m.players = len(m.names); changed {
		number(place, m.places)
	}
	for _, g := range games {
		seats := slices.Clone(g.Seats)
		slices.SortStableFunc(seats, func(a, b rollout.Seat) int { return cmp.Compare(b.Score, a.Score) })
		s := seating{times: float64(g.Times)}
		for i, seat := range seats {
			var parts []int
			if k, known := player[seat.Player]; known {
				parts = append(parts, k)
			}
			if k, known := place[seat.Place]; known {
				parts = append(parts, k)
			}
			s.parts = append(s.parts, parts)
			if i == 0 || seat.Score != seats[i-1].Score {
				s.ties = append(s.ties, i)
			}
		}
		m.seatings = append(m.seatings, s)
	}
	return m, nil
}

// loss is the negative logarithm of the posterior at x, which is convex, with its gradient and its second derivatives
// where they are asked for.
func (m *model) loss(x, grad []float64, hess *mat.SymDense) (loss float64) {
	clear(grad)
	if hess != nil {
		hess.Zero()
	}
	for i, v := range x {
		loss += m.precision[i] * v * v / 2
		if grad != nil {
			grad[i] = m.precision[i] * v
		}
		if hess != nil {
			hess.SetSym(i, i, m.precision[i])
		}
	}
	for i := range m.seatings {
		s := &m.seatings[i]
		for k, first := range s.ties {
			end := len(s.parts)
			if k+1 < len(s.ties) {
				end = s.ties[k+1]
			}
			loss += s.tied(x, first, end, grad, hess)
		}
	}
	return loss
}

// tied is the loss of the seats from first to end, which are tied and come before all later ones: the mean over their
// orders. In an order each seat comes first of those that are left; over all of them, those that are left have been
// every set of the tied ones, each set as often as all others of its size.
func (s *seating) tied(x []float64, first, end int, grad []float64, hess *mat.SymDense) (loss float64) {
	n := end - first
	strength := make([]float64, len(s.parts))
	for i := range strength[first:] {
		for _, k := range s.parts[first+i] {
			strength[first+i] += x[k]
		}
	}
	for i := first; i < end; i++ {
		loss -= s.times * strength[i]
		s.add(grad, i, -s.times)
	}
	chance := make([]float64, len(s.parts))
	for left := 1; left < 1<<n; left++ {
		weight := s.times / choose(n, bits.OnesCount(uint(left)))
		sum, most := 0.0, slices.Max(strength[first:])
		for i := first; i < len(s.parts); i++ {
			chance[i] = 0
			if i >= end || left>>(i-first)&1 == 1 {
				chance[i] = math.Exp(strength[i] - most)
			}
			sum += chance[i]
		}
		loss += weight * (most + math.Log(sum))
		for i := first; i < len(s.parts); i++ {
			chance[i] /= sum
			s.add(grad, i, weight*chance[i])
		}
		if hess != nil {
			s.curve(hess, first, chance, weight)
		}
	}
	return loss
}

// add adds v to the derivatives by what a seat's strength is made of.
func (s *seating) add(grad []float64, seat int, v float64) {
	if grad != nil {
		for _, k := range s.parts[seat] {
			grad[k] += v
		}
	}
}

// curve adds the second derivatives of the logarithm of a sum whose parts have these shares.
func (s *seating) curve(hess *mat.SymDense, first int, chance []float64, weight float64) {
	for i := first; i < len(chance); i++ {
		for j := first; j < len(chance); j++ {
			v := -weight * chance[i] * chance[j]
			if i == j {
				v += weight * chance[i]
			}
			for _, a := range s.parts[i] {
				for _, b := range s.parts[j] {
					if a <= b {
						hess.SetSym(a, b, hess.At(a, b)+v)
					}
				}
			}
		}
	}
}

func choose(n, k int) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}
