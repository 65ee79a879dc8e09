// Operations: names, and the numbers that stand for them in a throttle set.
//
// A definitions file may name any operation. Those of the published network come first
// and always have the same number, because the transaction rules know some of them; the
// others are numbered as a set meets them.
//
// Thread safety: an Operations is built once and then only read.

#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::system::throttle {

using OperationId = std::uint16_t;

constexpr OperationId kNoOperation = 0xffff;
constexpr std::size_t kOperationNamesMax = 8192;  // different ones in a definitions file

inline constexpr std::array kNetworkOperations = std::to_array<std::string_view>({
    "NONE",
    "CryptoTransfer",
    "CryptoUpdate",
    "CryptoDelete",
    "CryptoAddLiveHash",
    "CryptoDeleteLiveHash",
    "ContractCall",
    "ContractCreate",
    "ContractUpdate",
    "FileCreate",
    "FileAppend",
    "FileUpdate",
    "FileDelete",
    "CryptoGetAccountBalance",
    "CryptoGetAccountRecords",
    "CryptoGetInfo",
    "ContractCallLocal",
    "ContractGetInfo",
    "ContractGetBytecode",
    "GetBySolidityID",
    "GetByKey",
    "CryptoGetLiveHash",
    "CryptoGetStakers",
    "FileGetContents",
    "FileGetInfo",
    "TransactionGetRecord",
    "ContractGetRecords",
    "CryptoCreate",
    "SystemDelete",
    "SystemUndelete",
    "ContractDelete",
    "Freeze",
    "CreateTransactionRecord",
    "CryptoAccountAutoRenew",
    "ContractAutoRenew",
    "GetVersionInfo",
    "TransactionGetReceipt",
    "ConsensusCreateTopic",
    "ConsensusUpdateTopic",
    "ConsensusDeleteTopic",
    "ConsensusGetTopicInfo",
    "ConsensusSubmitMessage",
    "UncheckedSubmit",
    "TokenCreate",
    "TokenGetInfo",
    "TokenFreezeAccount",
    "TokenUnfreezeAccount",
    "TokenGrantKycToAccount",
    "TokenRevokeKycFromAccount",
    "TokenDelete",
    "TokenUpdate",
    "TokenMint",
    "TokenBurn",
    "TokenAccountWipe",
    "TokenAssociateToAccount",
    "TokenDissociateFromAccount",
    "ScheduleCreate",
    "ScheduleDelete",
    "ScheduleSign",
    "ScheduleGetInfo",
    "TokenGetAccountNftInfos",
    "TokenGetNftInfo",
    "TokenGetNftInfos",
    "TokenFeeScheduleUpdate",
    "NetworkGetExecutionTime",
    "TokenPause",
    "TokenUnpause",
    "CryptoApproveAllowance",
    "CryptoDeleteAllowance",
    "GetAccountDetails",
    "EthereumTransaction",
    "NodeStakeUpdate",
    "UtilPrng",
    "TransactionGetFastRecord",
    "TokenUpdateNfts",
    "NodeCreate",
    "NodeUpdate",
    "NodeDelete",
    "TokenReject",
    "TokenAirdrop",
    "TokenCancelAirdrop",
    "TokenClaimAirdrop",
    "StateSignatureTransaction",
    "HintsKeyPublication",
    "HintsPreprocessingVote",
    "HintsPartialSignature",
    "HistoryAssemblySignature",
    "HistoryProofKeyPublication",
    "HistoryProofVote",
    "CrsPublication",
    "AtomicBatch",
    "LambdaSStore",
    "HookDispatch",
    "HookStore",
    "LedgerIdPublication",
    "RegisteredNodeCreate",
    "RegisteredNodeUpdate",
    "RegisteredNodeDelete",
    "MigrationRootHashVote",
});

// The number of an operation of the network.
constexpr OperationId network_operation(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kNetworkOperations.size(); ++i) {
    if (kNetworkOperations[i] == name) return static_cast<OperationId>(i);
  }
  return kNoOperation;
}

namespace operation {
constexpr OperationId kContractCall = network_operation("ContractCall");
constexpr OperationId kContractCallLocal = network_operation("ContractCallLocal");
constexpr OperationId kContractCreate = network_operation("ContractCreate");
constexpr OperationId kCryptoCreate = network_operation("CryptoCreate");
constexpr OperationId kCryptoGetAccountBalance = network_operation("CryptoGetAccountBalance");
constexpr OperationId kCryptoTransfer = network_operation("CryptoTransfer");
constexpr OperationId kEthereumTransaction = network_operation("EthereumTransaction");
constexpr OperationId kHookDispatch = network_operation("HookDispatch");
constexpr OperationId kScheduleCreate = network_operation("ScheduleCreate");
constexpr OperationId kTokenAssociate = network_operation("TokenAssociateToAccount");
constexpr OperationId kTokenMint = network_operation("TokenMint");
}  // namespace operation

// Those that a file of the network is expected to list.
std::span<const std::string_view> expected_operations() noexcept;

// Whether it is charged by its gas limit.
bool takes_gas(OperationId operation) noexcept;

// Whether it asks the network something, and is no transaction.
bool is_query(OperationId operation) noexcept;

// Whether it may use the high-volume buckets.
bool may_be_high_volume(OperationId operation) noexcept;

// `CRYPTO_TRANSFER` for `CryptoTransfer`.
std::string upper_snake(std::string_view name);

class Operations {
 public:
  Operations();

  // The number of a name, given one if it has none. kNoOperation: there are too many.
  OperationId add(std::string_view name);

  OperationId find(std::string_view name) const noexcept;
  std::string_view name(OperationId operation) const noexcept { return names_[operation]; }
  std::size_t size() const noexcept { return names_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  std::vector<std::string> names_;
  boost::unordered_flat_map<std::string, OperationId, Hash, std::equal_to<>> ids_;
};

}  // namespace weir::system::throttle
