// What the published network says of its operations, as tables: which a file should list, which
// take gas, which may be high-volume.

#include "weir/system/throttle/operations.h"

#include <algorithm>

namespace weir::system::throttle {
namespace {

constexpr std::array kExpected = std::to_array<std::string_view>({
    "CryptoCreate",
    "CryptoTransfer",
    "CryptoUpdate",
    "CryptoDelete",
    "CryptoApproveAllowance",
    "CryptoDeleteAllowance",
    "FileCreate",
    "FileUpdate",
    "FileDelete",
    "FileAppend",
    "ContractCreate",
    "ContractUpdate",
    "ContractCall",
    "EthereumTransaction",
    "ContractDelete",
    "ConsensusCreateTopic",
    "ConsensusUpdateTopic",
    "ConsensusDeleteTopic",
    "ConsensusSubmitMessage",
    "TokenCreate",
    "TokenGetNftInfo",
    "TokenGetAccountNftInfos",
    "TokenGetNftInfos",
    "TokenFreezeAccount",
    "TokenUnfreezeAccount",
    "TokenGrantKycToAccount",
    "TokenRevokeKycFromAccount",
    "TokenDelete",
    "TokenMint",
    "TokenBurn",
    "TokenAccountWipe",
    "TokenUpdate",
    "TokenAssociateToAccount",
    "TokenDissociateFromAccount",
    "ScheduleCreate",
    "ScheduleSign",
    "ScheduleDelete",
    "ConsensusGetTopicInfo",
    "ContractCallLocal",
    "ContractGetInfo",
    "ContractGetBytecode",
    "ContractGetRecords",
    "CryptoGetAccountBalance",
    "CryptoGetAccountRecords",
    "CryptoGetInfo",
    "FileGetContents",
    "FileGetInfo",
    "TransactionGetReceipt",
    "TransactionGetRecord",
    "GetVersionInfo",
    "TokenGetInfo",
    "ScheduleGetInfo",
    "TokenFeeScheduleUpdate",
    "TokenPause",
    "TokenUnpause",
    "UtilPrng",
});

constexpr std::array kHighVolume = std::to_array<OperationId>({
    network_operation("CryptoCreate"),
    network_operation("ConsensusCreateTopic"),
    network_operation("ScheduleCreate"),
    network_operation("CryptoApproveAllowance"),
    network_operation("FileCreate"),
    network_operation("FileAppend"),
    network_operation("ContractCreate"),
    network_operation("HookStore"),
    network_operation("TokenAssociateToAccount"),
    network_operation("TokenAirdrop"),
    network_operation("TokenClaimAirdrop"),
    network_operation("TokenMint"),
    network_operation("TokenCreate"),
    network_operation("CryptoTransfer"),
});

constexpr std::array kTakeGas = {operation::kContractCall, operation::kContractCreate,
                                 operation::kEthereumTransaction, operation::kContractCallLocal,
                                 operation::kHookDispatch};

template <typename List>
constexpr bool has(const List& list, OperationId operation) noexcept {
  return std::find(list.begin(), list.end(), operation) != list.end();
}

static_assert(!has(kTakeGas, kNoOperation) && !has(kHighVolume, kNoOperation));

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

}  // namespace

std::span<const std::string_view> expected_operations() noexcept { return kExpected; }

bool takes_gas(OperationId operation) noexcept { return has(kTakeGas, operation); }

bool is_query(OperationId operation) noexcept {
  if (operation >= kNetworkOperations.size()) return false;
  return operation == operation::kContractCallLocal ||
         kNetworkOperations[operation].find("Get") != std::string_view::npos;
}

bool may_be_high_volume(OperationId operation) noexcept { return has(kHighVolume, operation); }

// A word begins at a capital after a small letter, and at the last of several capitals.
std::string upper_snake(std::string_view name) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool ends_word = i > 0 && !is_upper(name[i - 1]);
    const bool begins_word = i + 1 < name.size() && !is_upper(name[i + 1]);
    if (i > 0 && is_upper(c) && (ends_word || begins_word)) result += '_';
    result += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return result;
}

Operations::Operations() {
  for (const std::string_view name : kNetworkOperations) add(name);
}

OperationId Operations::add(std::string_view name) {
  if (const OperationId known = find(name); known != kNoOperation) return known;
  if (names_.size() >= kOperationNamesMax + kNetworkOperations.size()) return kNoOperation;
  const auto id = static_cast<OperationId>(names_.size());
  names_.emplace_back(name);
  ids_.emplace(name, id);
  return id;
}

OperationId Operations::find(std::string_view name) const noexcept {
  const auto found = ids_.find(name);
  return found == ids_.end() ? kNoOperation : found->second;
}

}  // namespace weir::system::throttle
