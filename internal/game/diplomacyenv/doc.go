// Package diplomacyenv is Diplomacy as an environment: scenarios, prompts, constraints, the reading of answers,
// rewards. The rules are package diplomacy's; orders as a language are orderlang's; players without a model are bot's.
//
// # A game's time
//
// Games begin in the year of the start position, 1901 on the standard map, and are cut after the last phase of year
// start + horizon_years - 1: three years are S1901M to W1903A. The horizon is a matter of the calendar, so the phases
// of a warm-up count towards it: a longer warm-up leaves fewer to the learners. The warm-up never enters the last
// year; it stops before, however many phases were drawn. A game also ends with a solo victory, and when no learner is
// left on the board.
//
// # Chance
//
// The length of the warm-up is a function of the scenario's seed, and so is all of it if bots play it. If the learners'
// model does (warmup_policy: learner), the first warm-up that is played to its end is the group's. After the fork only
// the bots that play the powers not trained draw, each phase and power from a stream of its own made of the seed, the
// sample, the phase and the power. A checkpoint therefore holds no state of chance: it is the orders of all phases,
// and resuming is playing them again, which takes microseconds a phase.
//
// Start reading at Config, then Env and game.Act. prompt_text.go is what a learner sees, reward_kinds_and_tally.go
// what it earns.
package diplomacyenv
