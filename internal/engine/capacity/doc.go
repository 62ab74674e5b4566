// Package capacity is how fast an engine is at a load: from what engines were seen to do with so many requests in
// flight, it fits by how much more slowly a request is answered than it would be alone. It says how sure it is, and
// admits when the loads that were seen cannot tell engines that are saturated from engines that have room. It is
// pure, and knows neither runs nor steps: who observes decides what a unit of work is.
//
// # The curve
//
// With n requests in flight, a request takes s(n) times as long as alone:
//
//	s(n) = (1 + (n/h)^k)^(1/k)
//
// At k = 1, a request's time grows with every other request, as 1 + n/h; larger k have a knee at h: requests do not
// feel each other below it, and share a fixed rate above. The engine answers n/s(n) requests in the time that one takes
// alone, at most h. The rise is what share of one more request in flight becomes throughput: d ln(n/s) / d ln n =
// 1/(1 + (n/h)^k). It is 1 while requests do not feel each other, and near 0 when an engine is saturated: tokens per
// second stay flat however many requests are in flight.
//
// # The fit
//
// Observations come in series: one engine in one stretch of time, seen in one way. Each series has a speed of its own,
// because engines differ, work drifts, and ways of counting differ; what all share is the curve. For every curve of a
// grid the logarithms of the times are compared with it, robustly: a few observations that are far off count little.
// The best curve is the one with the least loss; the curves whose loss is about as small are all possible, and their
// rises at the present load make the interval. Observations of one cluster (those of one step, say) may err together:
// how much they do is measured, and widens the interval.
//
// Loads must be free of error as far as can be: an error in the load of a time that was seen apart from it makes
// engines seem to have room, and in one that was reckoned from it, saturated. Who observes draws them together
// beforehand.
//
// Start reading at Fitted.
package capacity
