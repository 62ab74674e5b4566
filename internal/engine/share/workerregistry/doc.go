// Package workerregistry lists the worker processes that are alive, with what each has to do, which share of the
// engines it holds, and what it has used of them. Every worker reports itself; package share says how they
// divide the engines. The engines are those of package fleet. Start reading at Registry, then Exchange.
package workerregistry
