// SPDX-License-Identifier: GPL-2.0-or-later
// The Redfish service as a function from request to response; the socket is http/server's.
//
// It reads one immutable snapshot per request and never waits: a change is handed to the Backend,
// which answers with the number of the task that carries it out (DSP0266: 202 and a task monitor).
//
// What can be changed, beside DMTF's create, delete and rename of a Volume (below Storage/c0):
//   POST Volumes   RAIDType, Name, CapacityBytes, StripSizeBytes, MediaSpanCount, Links.Drives (or
//                  Drives, as Dell has it), Links.DedicatedSpareDrives, Oem.Perch {PerSpan, Force}
//   Volumes/N/Actions/Volume.Initialize {InitializeType: Fast|Slow}, Volume.CheckConsistency,
//     Oem/PerchVolume.StopInitialize, Oem/PerchVolume.StopCheckConsistency
//   Drives/D/Actions/Oem/PerchDrive.SetState {State: Offline|Online|Missing|Unconfigured|JBOD,
//     Force}, .InsertMember {DriveGroup, Array, Row, Force}, .StartRebuild, .StopRebuild,
//     .AddSpare {DriveGroups: [0]}, .DeleteSpare
//   Actions/Oem/PerchStorage.ImportForeign {Groups}, .ClearForeign {Groups}, .SetCoercion
//     {Coercion: None|128M|1G}; Groups: [] is all, else numbers, or {Id, History, OriginalGroup} as
//     Oem.Perch.ForeignGroups shows them: refused when the number means another group by then
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "operations/controller.hpp"

namespace perch::redfish {

struct Request {
    std::string method;
    std::string target;  ///< path and query
    std::string body;
    bool may_change = false;  ///< the peer is root or in group perch
};

struct Response {
    unsigned status = 200;
    std::map<std::string, std::string> headers;
    std::string body;  ///< JSON, or empty
};

/// What the service needs of perchd.
class Backend {
  public:
    using Operation = std::function<Result<std::string>(Controller&)>;  ///< URI of what it made

    Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;
    virtual ~Backend() = default;

    [[nodiscard]] virtual std::shared_ptr<const Snapshot> snapshot() const = 0;
    [[nodiscard]] virtual std::vector<Event> events(std::uint64_t after, std::size_t latest) = 0;
    /// Queues an operation and returns the task's number.
    virtual std::uint64_t submit(const std::string& name, Operation operation) = 0;
};

inline constexpr const char* storage_uri = "/redfish/v1/Systems/1/Storage/c0";
inline constexpr const char* snapshot_uri = "/redfish/v1/Oem/Perch/Snapshot";

class Service {
  public:
    explicit Service(Backend& backend) : backend_(backend) {}

    Response handle(const Request& request);
    /// For a GET of the snapshot: the generation to wait for to pass, 0 without ?after=N (there is
    /// none before the first look at the drives). Malformed is absent.
    [[nodiscard]] static std::optional<std::uint64_t> awaited_generation(const Request& request);

  private:
    Backend& backend_;
};

/// The body and status of an error (DSP0266, "Error responses").
Response error_response(const Error& error);

}  // namespace perch::redfish
