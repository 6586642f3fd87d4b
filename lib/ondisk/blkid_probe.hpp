// SPDX-License-Identifier: GPL-2.0-or-later
// A libblkid probe that is freed when it goes out of scope.
#pragma once

#include <blkid/blkid.h>

#include <memory>

namespace perch {

struct BlkidProbeDeleter {
    void operator()(blkid_struct_probe* probe) const { blkid_free_probe(probe); }
};
using BlkidProbe = std::unique_ptr<blkid_struct_probe, BlkidProbeDeleter>;

}  // namespace perch
