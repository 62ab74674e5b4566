// Package bufferload loads Redis as the games of many engines do, and with nothing else: through the stores that the
// service uses, with the scripts, sizes and rhythm of real games, which are played once and then told again and again.
// There are no engines, no Temporal and no server. What Redis used is read from its own account of processor time, so
// that neither the load's cost nor the machine's other work is in it; from that follows how many turns a core of Redis
// carries, alone and as a node of a Cluster. Start reading at Measure, then write_game_load_to_buffer.go for what a
// game writes.
package bufferload
