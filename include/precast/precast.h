// Everything a program needs; the individual headers say what is in each.
#pragma once

#include <precast/argument.h>
#include <precast/dtype.h>
#include <precast/error.h>
#include <precast/kernel.h>
#include <precast/orchestrator.h>
#include <precast/program.h>
#include <precast/report.h>
#include <precast/tensor.h>
#include <precast/trace.h>
#include <precast/worker.h>
