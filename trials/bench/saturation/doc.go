// Package saturation raises the load of the whole service until it plays no more turns per second: many engines with
// modelled delays in this process, several workers, a Redis Cluster, the Temporal dev server, a server and a trainer,
// all real. It says which part takes how much of the machine at each load, by the kernel's account of each process, how
// evenly engines and workers are used, and what each part would need for more. Start reading at Measure.
package saturation
