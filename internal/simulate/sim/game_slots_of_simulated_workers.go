package sim

// gameSlots are the games that all workers play at a time. Games wait for one in the order in which their groups were
// launched, as in the run's task queue.
type gameSlots struct {
	limit   int // 0: any number
	used    int
	waiting []*game
	head    int // of waiting
}

// wait gives a game a slot, now or later.
func (s *gameSlots) wait(a *game) {
	a.state = gameWaits
	s.waiting = append(s.waiting, a)
	s.give()
}

func (s *gameSlots) release() {
	s.used--
	s.give()
}

// give lets the games begin for which there are slots.
func (s *gameSlots) give() {
	for s.head < len(s.waiting) && (s.limit == 0 || s.used < s.limit) {
		a := s.waiting[s.head]
		s.waiting[s.head] = nil
		s.head++
		if a.state == gameOver { // cancelled meanwhile
			a.recycle()
			continue
		}
		s.used++
		a.begin()
	}
	if s.head > 1024 && 2*s.head > len(s.waiting) || s.head == len(s.waiting) {
		s.waiting = s.waiting[:copy(s.waiting, s.waiting[s.head:])]
		s.head = 0
	}
}
